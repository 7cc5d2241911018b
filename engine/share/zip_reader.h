#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/archive/zip.h"

/// ZIP archives in the form that ZipWriter makes, from an untrusted source.
namespace dlflow {

/// The maximum number of entries: above it, minizip, which writes bundles, would need a ZIP64
/// directory, which it does not write; 65,535 itself means "more".
inline constexpr uint64_t kMaxZipEntries = 65'534;

class ZipReader {
 public:
  /// Opens `file` and checks every entry. Throws Error{Corrupt} unless the archive consists of
  /// entries one after the other, the directory that lists exactly these, and its end: no byte
  /// before, between or after them, and no header that differs from the directory. Throws
  /// Error{InvalidInput} for an entry that is not a plain file of mode 0644 or 0755, is encrypted,
  /// is packed by another method than deflate, or whose name fails path_is_safe() or occurs twice.
  explicit ZipReader(const std::filesystem::path& file);

  const std::vector<ZipEntry>& entries() const { return entries_; }
  uint64_t file_bytes() const { return archive_.file_bytes(); }

  /// Like ZipArchive::read.
  void read(const ZipEntry& entry, const std::function<void(std::string_view)>& use) const {
    archive_.read(entry, use);
  }

  /// The whole content. Throws like read(), and Error{InvalidInput} if it is larger than
  /// `max_bytes`.
  std::string read_text(const ZipEntry& entry, uint64_t max_bytes) const;

 private:
  uint64_t checked_end(const ZipEntry& entry, uint64_t offset) const;
  void check_end() const;

  ZipArchive archive_;
  std::vector<ZipEntry> entries_;
};

/// Whether a relative path means the same file on every machine and leads nowhere else: UTF-8
/// without control characters and backslashes, no empty part, no "." and "..", no longer than file
/// systems allow.
bool path_is_safe(std::string_view path);

}  // namespace dlflow
