#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/handle.h"

/// ZIP archives as ZipWriter makes them, read without trust.
namespace dlflow {

/// minizip, which writes bundles, writes no ZIP64 directory for more; 65,535 stands for "more" in a
/// plain one.
inline constexpr uint64_t kMaxZipEntries = 65'534;

struct ZipEntry {
  std::string name;
  uint64_t bytes = 0;  ///< unpacked, as the archive says
  bool executable = false;
  uint64_t packed_bytes = 0;
  uint64_t content = 0;  ///< where it begins in the file
  unsigned crc = 0;      ///< of the content, unpacked
};

class ZipReader {
 public:
  /// Opens `file` and looks at every entry. Throws Error{Corrupt} unless the archive is nothing but
  /// entries one after the other, the directory that lists exactly these, and its end: no byte
  /// before, between or behind, no header that says something else than the directory. Throws
  /// Error{InvalidInput} for an entry that is no plain file of mode 0644 or 0755, is encrypted,
  /// packed by another method than deflate, or whose name is not one of path_is_safe() or is there
  /// twice.
  explicit ZipReader(const std::filesystem::path& file);

  const std::vector<ZipEntry>& entries() const { return entries_; }
  uint64_t file_bytes() const { return file_bytes_; }

  /// Hands the content of an entry to `use`, piece by piece. Throws Error{Corrupt} if it is not as
  /// long as the entry says, or if its checksum does not fit.
  void read(const ZipEntry& entry, const std::function<void(std::string_view)>& use);

  /// The whole content. Throws as read(), and Error{InvalidInput} if it is larger than `max_bytes`.
  std::string read_text(const ZipEntry& entry, uint64_t max_bytes);

 private:
  struct Directory {
    uint64_t place = 0;
    uint64_t end = 0;
    uint64_t num_entries = 0;
  };

  std::string bytes_at(uint64_t offset, size_t count) const;
  Directory find_directory() const;
  void read_directory(const Directory& directory);
  ZipEntry read_line(uint64_t& place, uint64_t offset) const;
  uint64_t check_local_header(const ZipEntry& entry, std::string_view line, uint64_t offset) const;

  std::filesystem::path path_;
  FileDescriptor file_;
  uint64_t file_bytes_ = 0;
  std::vector<ZipEntry> entries_;
};

/// A relative path that means the same file on every machine and leads nowhere else: UTF-8 without
/// control characters and backslashes, no empty part, no "." and "..", no longer than file systems
/// allow.
bool path_is_safe(std::string_view path);

}  // namespace dlflow
