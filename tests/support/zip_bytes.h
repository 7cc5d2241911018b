#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

/// ZIP archives byte by byte: the smallest size with the records of the largest.
namespace dlflow::test {

inline std::string bytes_of(uint64_t value, size_t count) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes += char(value >> 8 * i & 0xff);
  return bytes;
}

inline const std::string kLocal = "PK\3\4";
inline const std::string kLine = "PK\1\2";

inline constexpr size_t kEndBytes = 22;

struct Changes64 {
  std::string mark = "PK\6\6";
  int64_t directory_bytes = 0;  // added to the correct value
  int64_t directory_place = 0;
  int64_t record_place = 0;
  uint64_t entries = 2;
};

/// Adds to `archive` the records that precede the end of large archives.
inline std::string with_zip64(const std::string& archive, const Changes64& changes = {}) {
  const uint64_t place = archive.find("PK\1\2");
  const uint64_t end = archive.size() - kEndBytes;
  const std::string record = changes.mark + bytes_of(44, 8) + bytes_of(45, 2) + bytes_of(45, 2) +
                             bytes_of(0, 8) + bytes_of(changes.entries, 8) +
                             bytes_of(changes.entries, 8) +
                             bytes_of(end - place + uint64_t(changes.directory_bytes), 8) +
                             bytes_of(place + uint64_t(changes.directory_place), 8);
  const std::string locator = "PK\6\7" + bytes_of(0, 4) +
                              bytes_of(end + uint64_t(changes.record_place), 8) + bytes_of(1, 4);
  return archive.substr(0, end) + record + locator + archive.substr(end);
}

/// The fields of a header from the version up to the length of the extra field. Content is "a".
inline std::string header(uint64_t packed, uint64_t bytes, uint64_t extra) {
  return bytes_of(20, 2) + bytes_of(0, 2) + bytes_of(8, 2) + bytes_of(0x210000, 4) +
         bytes_of(0xe8b7be43, 4) + bytes_of(packed, 4) + bytes_of(bytes, 4) + bytes_of(1, 2) +
         bytes_of(extra, 2);
}

/// A directory entry; the name has one letter.
inline std::string line(const std::string& name, uint64_t packed, uint64_t bytes,
                        const std::string& extra, uint64_t place) {
  return kLine + bytes_of(3 << 8 | 20, 2) + header(packed, bytes, extra.size()) + bytes_of(0, 2) +
         bytes_of(0, 2) + bytes_of(0, 2) + bytes_of(uint64_t(S_IFREG | 0644) << 16, 4) +
         bytes_of(place, 4) + name + extra;
}

inline std::string end_of(uint64_t entries, uint64_t directory_bytes, uint64_t place) {
  return "PK\5\6" + bytes_of(0, 4) + bytes_of(entries, 2) + bytes_of(entries, 2) +
         bytes_of(directory_bytes, 4) + bytes_of(place, 4) + bytes_of(0, 2);
}

inline const std::string kPackedA("\x4b\x04\x00", 3);
inline constexpr uint64_t kElsewhere = 0xffffffff;  // the number is in the ZIP64 field

/// The ZIP64 field.
inline std::string sizes64(uint64_t bytes, uint64_t packed) {
  return bytes_of(1, 2) + bytes_of(16, 2) + bytes_of(bytes, 8) + bytes_of(packed, 8);
}

}  // namespace dlflow::test
