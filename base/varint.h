#pragma once

#include <cstdint>
#include <string>

namespace dlflow {

/// Appends `value` as Protocol Buffers, Thrift and Parquet write numbers of any length: seven bits
/// a byte, the lowest first, each but the last with its highest bit set (LEB128).
inline void append_varint(std::string& bytes, uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes += char(value | 0x80);
  bytes += char(value);
}

}  // namespace dlflow
