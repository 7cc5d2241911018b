#include "base/error.h"
#include "runtime/checkpoint/safetensors.h"
#include "tests/fuzz/fuzz.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

std::string file_of(const std::string& header, size_t num_data_bytes) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header +
         std::string(num_data_bytes, 'd');
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto file = Safetensors::parse(std::as_bytes(std::span(data, size)), "input");
    size_t total_bytes = 0;
    for (const TensorView& tensor : file.tensors()) {
      total_bytes += tensor.bytes.size();
      DLFLOW_CHECK(&file.at(tensor.name) == &tensor);
      const bool inside = tensor.bytes.empty() ||
                          (reinterpret_cast<const uint8_t*>(tensor.bytes.data()) >= data &&
                           reinterpret_cast<const uint8_t*>(&tensor.bytes.back()) < data + size);
      DLFLOW_CHECK(inside);
    }
    DLFLOW_CHECK(total_bytes <= size);
  } catch (const Error& error) {
    DLFLOW_CHECK(error.code() == Errc::Corrupt);
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      file_of("{}", 0),
      file_of(R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,3],)"
              R"("data_offsets":[0,24]},"b":{"dtype":"U8","shape":[],"data_offsets":[24,25]}})",
              25),
      file_of(R"({"a":{"dtype":"I64","shape":[0,9],"data_offsets":[0,0]}}     )", 0),
  };
}
