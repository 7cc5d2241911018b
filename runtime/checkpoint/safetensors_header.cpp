#include "runtime/checkpoint/safetensors_header.h"

#include <array>
#include <optional>
#include <set>

#include "base/json.h"

namespace dlflow::runtime {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
  size_t size;
};

constexpr std::array<DTypeRow, 7> kDTypes{{{DType::U8, "U8", 1},
                                           {DType::F16, "F16", 2},
                                           {DType::BF16, "BF16", 2},
                                           {DType::I32, "I32", 4},
                                           {DType::F32, "F32", 4},
                                           {DType::F64, "F64", 8},
                                           {DType::I64, "I64", 8}}};

/// Far more than any tensor has; prevents a hostile header from costing memory.
constexpr size_t kMaxDimensions = 64;

std::optional<DType> dtype_named(std::string_view text) {
  for (const DTypeRow& row : kDTypes) {
    if (row.name == text) return row.dtype;
  }
  return std::nullopt;
}

/// Checks the header's grammar while nlohmann parses it, and builds only what is needed: a hostile
/// header of 100 MB costs no more memory than its names.
///
///   {"__metadata__": {KEY: TEXT, ...}, NAME: {"dtype": TEXT, "shape": [N, ...],
///    "data_offsets": [BEGIN, END]}, ...}
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderReader(const std::string& source) : source_(source) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool start_object(std::size_t) override {
    switch (state_) {
      case ParserState::Start:
        state_ = ParserState::Top;
        return true;
      case ParserState::Top:
        if (name_ == "__metadata__") {
          state_ = ParserState::Metadata;
        } else {
          state_ = ParserState::Tensor;
          header_.entries.emplace_back().name = name_;
          seen_.clear();
        }
        return true;
      case ParserState::Metadata:
      case ParserState::Tensor:
      case ParserState::Numbers:
        break;
    }
    fail("has an object in the wrong place");
  }

  bool end_object() override {
    if (state_ == ParserState::Tensor && seen_.size() != 3)
      fail("needs dtype, shape and data_offsets");
    state_ = ParserState::Top;
    return true;
  }

  bool key(std::string& text) override {
    if (state_ == ParserState::Top) {
      name_ = text;
      if (!names_.insert(text).second) fail("occurs twice");
      return true;
    }
    key_ = text;
    if (state_ == ParserState::Metadata && header_.metadata.contains(text)) {
      fail("has the key '" + text + "' twice");
    }
    if (state_ == ParserState::Tensor) {
      if (text != "dtype" && text != "shape" && text != "data_offsets") {
        fail("has the unknown key '" + text + "'");
      }
      if (!seen_.insert(text).second) fail("has the key '" + text + "' twice");
    }
    return true;
  }

  bool string(std::string& text) override {
    if (state_ == ParserState::Metadata) {
      header_.metadata.emplace(key_, text);
    } else if (state_ == ParserState::Tensor && key_ == "dtype") {
      const auto dtype = dtype_named(text);
      if (!dtype) fail("has the type '" + text + "', which dlflow does not support");
      header_.entries.back().dtype = *dtype;
    } else {
      fail("has a string in the wrong place");
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (state_ != ParserState::Tensor || key_ == "dtype") fail("has a list in the wrong place");
    state_ = ParserState::Numbers;
    numbers_.clear();
    return true;
  }

  bool end_array() override {
    state_ = ParserState::Tensor;
    if (key_ == "shape") {
      header_.entries.back().shape = numbers_;
    } else if (numbers_.size() == 2) {
      header_.entries.back().begin = numbers_[0];
      header_.entries.back().end = numbers_[1];
    } else {
      fail("needs two data_offsets, begin and end");
    }
    return true;
  }

  bool number_unsigned(std::uint64_t value) override {
    if (state_ != ParserState::Numbers) fail("has a number in the wrong place");
    if (numbers_.size() == kMaxDimensions) fail("has too many dimensions");
    numbers_.push_back(value);
    return true;
  }
  bool number_integer(std::int64_t) override { fail("has a negative number"); }
  bool number_float(double, const std::string& text) override {
    fail("has the number " + text.substr(0, 40) + ", which is not a 64-bit count");
  }
  bool null() override { fail("has a null"); }
  bool boolean(bool) override { fail("has true or false"); }
  bool binary(Json::binary_t&) override { fail("has binary data"); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    throw Error(Errc::Corrupt, source_ +
                                   " is not a safetensors file: its header is not JSON at byte " +
                                   std::to_string(position));
  }

 private:
  enum class ParserState { Start, Top, Metadata, Tensor, Numbers };

  [[noreturn]] void fail(const std::string& what) const {
    const std::string who = state_ == ParserState::Start ? "the header" : "tensor '" + name_ + "'";
    throw Error(Errc::Corrupt, source_ + " is not a valid safetensors file: " + who + " " + what);
  }

  std::string source_;
  SafetensorsHeader header_;
  ParserState state_ = ParserState::Start;
  std::set<std::string> names_;
  std::set<std::string> seen_;  // keys of the current tensor
  std::string name_;
  std::string key_;
  std::vector<uint64_t> numbers_;
};

}  // namespace

size_t element_size(DType dtype) { return kDTypes[size_t(dtype)].size; }

std::string_view name(DType dtype) { return kDTypes[size_t(dtype)].name; }

std::string format_header(const SafetensorsHeader& header) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) json["__metadata__"] = header.metadata;
  for (const HeaderEntry& entry : header.entries) {
    json[entry.name] = {{"dtype", name(entry.dtype)},
                        {"shape", entry.shape},
                        {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

SafetensorsHeader parse_header(std::string_view text, const std::string& source) {
  HeaderReader reader(source);
  Json::sax_parse(text, &reader);
  return reader.take();
}

std::optional<uint64_t> tensor_bytes(DType dtype, const std::vector<uint64_t>& shape) {
  uint64_t bytes = element_size(dtype);
  for (const uint64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  }
  return bytes;
}

}  // namespace dlflow::runtime
