#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dlflow {

/// A field of a message in the wire format of Protocol Buffers.
struct MessageField {
  uint64_t number = 0;
  uint64_t value = 0;      ///< of integers, and the bits of floating-point numbers
  std::string_view bytes;  ///< of texts, packed numbers and messages
  bool has_bytes = false;

  int64_t integer() const { return int64_t(value); }
  float single() const { return std::bit_cast<float>(uint32_t(value)); }
};

/// Reads the fields of a message in order, never beyond its bytes. Throws Error{Corrupt} for bytes
/// that are not a message.
/// Source: https://protobuf.dev/programming-guides/encoding
class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : rest_(bytes) {}

  std::optional<MessageField> next() {
    if (rest_.empty()) return {};
    const uint64_t key = varint();
    MessageField field;
    field.number = key >> 3;
    switch (key & 7) {
      case kVarint:
        field.value = varint();
        break;
      case kFixed64:
        field.value = fixed(8);
        break;
      case kFixed32:
        field.value = fixed(4);
        break;
      case kBytes:
        field.has_bytes = true;
        field.bytes = take(varint());
        break;
      default:
        refuse();
    }
    if (field.number == 0) refuse();
    return field;
  }

  /// Adds the integers of a repeated field, packed or single, to `all`.
  static void add_integers(const MessageField& field, std::vector<int64_t>& all) {
    if (!field.has_bytes) return all.push_back(field.integer());
    MessageReader packed(field.bytes);
    while (!packed.rest_.empty()) all.push_back(int64_t(packed.varint()));
  }

  /// The same for 32-bit floating-point numbers.
  static void add_floats(const MessageField& field, std::vector<float>& all) {
    if (!field.has_bytes) return all.push_back(field.single());
    MessageReader packed(field.bytes);
    while (!packed.rest_.empty()) {
      all.push_back(std::bit_cast<float>(uint32_t(packed.fixed(4))));
    }
  }

 private:
  static constexpr uint64_t kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;

  [[noreturn]] static void refuse() {
    throw Error(Errc::Corrupt, "not a message of Protocol Buffers");
  }

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = uint8_t(take(1)[0]);
      value |= uint64_t(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    refuse();
  }

  uint64_t fixed(size_t size) {
    const std::string_view bytes = take(size);
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i) value |= uint64_t(uint8_t(bytes[i])) << (8 * i);
    return value;
  }

  std::string_view take(uint64_t size) {
    if (size > rest_.size()) refuse();
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::string_view rest_;
};

}  // namespace dlflow
