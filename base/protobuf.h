#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace dlflow {

/// A message in the wire format of Protocol Buffers, field by field in the order of the calls; only
/// the types that files of trackers and ONNX need.
/// Source: https://protobuf.dev/programming-guides/encoding
class Message {
 public:
  Message& add(int field, uint64_t value) {
    key(field, kVarint);
    varint(value);
    return *this;
  }
  Message& add(int field, double value) {
    return fixed(field, kFixed64, std::bit_cast<uint64_t>(value), 8);
  }
  Message& add(int field, float value) {
    return fixed(field, kFixed32, std::bit_cast<uint32_t>(value), 4);
  }
  Message& add(int field, std::string_view bytes) {
    key(field, kBytes);
    varint(bytes.size());
    bytes_ += bytes;
    return *this;
  }
  /// Repeated integers, packed.
  Message& add(int field, std::span<const int64_t> values) {
    Message packed;
    for (const int64_t value : values) packed.varint(uint64_t(value));
    return add(field, packed);
  }
  Message& add(int field, const Message& part) { return add(field, std::string_view(part.bytes_)); }

  const std::string& bytes() const { return bytes_; }

 private:
  static constexpr int kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;

  void key(int field, int type) { varint(uint64_t(field) << 3 | uint64_t(type)); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += char(value | 0x80);
    bytes_ += char(value);
  }
  Message& fixed(int field, int type, uint64_t bits, int size) {
    key(field, type);
    for (int i = 0; i < size; ++i) bytes_ += char(bits >> (8 * i));
    return *this;
  }

  std::string bytes_;
};

}  // namespace dlflow
