#include "runtime/onnx/element.h"

#include <bit>
#include <cstring>
#include <utility>

#include "base/bfloat16.h"
#include "base/error.h"
#include "base/float16.h"

namespace dlflow::runtime {
namespace {

/// Calls `add(number)` for each little-endian element of type T in `bytes`.
template <typename T, typename Add>
void for_each_element(std::string_view bytes, const std::string& name, Add add) {
  if (bytes.size() % sizeof(T) != 0) {
    throw Error(Errc::Corrupt, "constant '" + name + "' ends within a number");
  }
  for (size_t i = 0; i < bytes.size(); i += sizeof(T)) {
    T element;
    std::memcpy(&element, bytes.data() + i, sizeof element);
    add(element);
  }
}

}  // namespace

Element element_of(int64_t type, const std::string& name) {
  for (const Element element :
       {Element::Float, Element::Uint8, Element::Int8, Element::Int32, Element::Int64,
        Element::Bool, Element::Float16, Element::Double, Element::BFloat16}) {
    if (type == int64_t(element)) return element;
  }
  throw Error(Errc::InvalidInput, "constant '" + name + "' has numbers of ONNX's type " +
                                      std::to_string(type) +
                                      "; dlflow reads floating-point and whole numbers");
}

void add_doubles(const MessageField& field, const std::string& name, OnnxTensor& tensor) {
  const auto add = [&](double number) { tensor.floats.push_back(float(number)); };
  if (!field.has_bytes) return add(std::bit_cast<double>(field.value));
  for_each_element<double>(field.bytes, name, add);
}

void add_whole_numbers(std::vector<int64_t> integers, Element element, OnnxTensor& tensor) {
  switch (element) {
    case Element::Float:
    case Element::Double:
      return;
    case Element::Float16:
      for (const int64_t bits : integers) tensor.floats.push_back(widen(Float16{uint16_t(bits)}));
      return;
    case Element::BFloat16:
      for (const int64_t bits : integers) tensor.floats.push_back(widen(BFloat16{uint16_t(bits)}));
      return;
    case Element::Uint8:
    case Element::Int8:
    case Element::Int32:
    case Element::Int64:
    case Element::Bool:
      tensor.integers = std::move(integers);
      return;
  }
}

void add_raw(std::string_view raw, Element element, const std::string& name, OnnxTensor& tensor) {
  const auto whole = [&](auto number) { tensor.integers.push_back(int64_t(number)); };
  const auto real = [&](auto number) { tensor.floats.push_back(float(number)); };
  const auto half = [&](auto number) { tensor.floats.push_back(widen(number)); };
  switch (element) {
    case Element::Float:
      return for_each_element<float>(raw, name, real);
    case Element::Double:
      return for_each_element<double>(raw, name, real);
    case Element::Float16:
      return for_each_element<Float16>(raw, name, half);
    case Element::BFloat16:
      return for_each_element<BFloat16>(raw, name, half);
    case Element::Int64:
      return for_each_element<int64_t>(raw, name, whole);
    case Element::Int32:
      return for_each_element<int32_t>(raw, name, whole);
    case Element::Int8:
      return for_each_element<int8_t>(raw, name, whole);
    case Element::Uint8:
    case Element::Bool:
      return for_each_element<uint8_t>(raw, name, whole);
  }
}

}  // namespace dlflow::runtime
