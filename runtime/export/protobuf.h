#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

/// The bytes of a protobuf message, field by field:
/// https://protobuf.dev/programming-guides/encoding.
namespace dlflow::runtime {

class ProtobufMessage {
 public:
  void add_integer(int field, int64_t value) {
    add_varint(uint64_t(field) << 3);
    add_varint(uint64_t(value));
  }

  void add_float(int field, float value) {
    add_varint(uint64_t(field) << 3 | 5);
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);  // little-endian, as all of dlflow's files
    bytes_.append(bytes, sizeof value);
  }

  /// Text, bytes or another message.
  void add_bytes(int field, std::string_view bytes) {
    add_varint(uint64_t(field) << 3 | 2);
    add_varint(bytes.size());
    bytes_.append(bytes);
  }

  void add_message(int field, const ProtobufMessage& message) { add_bytes(field, message.bytes_); }

  /// As one field of type `repeated int64`.
  void add_integers(int field, std::span<const int64_t> values) {
    ProtobufMessage packed;
    for (const int64_t value : values) packed.add_varint(uint64_t(value));
    add_message(field, packed);
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void add_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(char(value | 0x80));
    bytes_.push_back(char(value));
  }

  std::string bytes_;
};

}  // namespace dlflow::runtime
