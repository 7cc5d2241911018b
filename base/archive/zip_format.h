#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

/// Constants in the records of a ZIP archive: APPNOTE.TXT 6.3, "General Format of a .ZIP file".
namespace dlflow::zip {

constexpr std::string_view kLocalHeader = "PK\3\4";
constexpr std::string_view kLine = "PK\1\2";  ///< in the directory
constexpr std::string_view kEnd = "PK\5\6";
constexpr std::string_view kLocator64 = "PK\6\7";
constexpr std::string_view kEnd64 = "PK\6\6";
constexpr size_t kLocalHeaderBytes = 30;
constexpr size_t kLineBytes = 46;
constexpr size_t kEndBytes = 22;
constexpr size_t kLocator64Bytes = 20;
constexpr size_t kEnd64Bytes = 56;

/// Stands for a number of more than 32 bits, which is in a ZIP64 field or record instead.
constexpr uint64_t kNoRoom32 = 0xffffffff;

constexpr uint64_t kZip64Field = 1;
constexpr unsigned kMadeByUnix = 3;

/// The little-endian number in the `count` bytes from `offset` on.
constexpr uint64_t little_endian(std::string_view bytes, size_t offset, size_t count) {
  uint64_t value = 0;
  for (size_t i = count; i-- > 0;) value = value << 8 | uint8_t(bytes[offset + i]);
  return value;
}

}  // namespace dlflow::zip
