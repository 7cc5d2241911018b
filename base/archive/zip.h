#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/archive/archive_entries.h"
#include "base/error.h"
#include "base/handle.h"

/// ZIP archives of any size. (minizip, which writes bundles, cannot read archives whose sizes or
/// offsets need more than 32 bits.)
namespace dlflow {

/// An entry as the archive's directory describes it.
struct ZipEntry {
  std::string name;
  std::string line;   ///< its record in the directory, up to the name
  std::string extra;  ///< its extra field
  bool stored = false;
  mode_t mode = 0;  ///< with the file type; 0 if the archive was not made on Unix
  unsigned crc = 0;
  uint64_t packed_bytes = 0;
  uint64_t bytes = 0;
  uint64_t place = 0;  ///< offset of its local header
};

class ZipArchive {
 public:
  /// Opens `file`; messages about damage begin with `damaged`. Finds the directory even after other
  /// bytes and before a comment. Throws Error{Corrupt} if there is none.
  ZipArchive(const std::filesystem::path& file, std::string damaged);

  uint64_t file_bytes() const { return file_bytes_; }
  uint64_t directory_begin() const { return directory_begin_; }
  uint64_t directory_end() const { return directory_end_; }

  /// Calls `use` for every record of the directory. Throws Error{InvalidInput} for an entry that is
  /// encrypted or packed by a method other than deflate, Error{Corrupt} if the directory is
  /// damaged.
  void each_entry(const std::function<void(ZipEntry)>& use) const;

  /// The offset of the content of `entry`. Checks the local header before it.
  uint64_t content_of(const ZipEntry& entry) const;

  /// Passes the content of `entry` to `use`, piece by piece. Throws Error{Corrupt} unless its
  /// length and checksum agree with the directory.
  void read(const ZipEntry& entry, const std::function<void(std::string_view)>& use) const;

  std::string bytes_at(uint64_t offset, size_t count) const;
  Error corrupt(const std::string& what) const { return Error(Errc::Corrupt, damaged_ + what); }

 private:
  uint64_t end_record() const;
  ZipEntry read_line(uint64_t& place) const;
  void take_large_numbers(ZipEntry& entry) const;

  std::string damaged_;
  FileDescriptor file_;
  uint64_t file_bytes_ = 0;
  uint64_t directory_begin_ = 0;
  uint64_t directory_end_ = 0;
  uint64_t num_entries_ = 0;
  uint64_t shift_ = 0;  ///< bytes before the archive; its offsets do not count them
};

/// Passes every entry of the archive `file` to `entries`. Throws like ZipArchive, and
/// Error{InvalidInput} for an entry that is neither a file, a folder nor a link.
void read_zip(const std::filesystem::path& file, ArchiveEntries& entries);

}  // namespace dlflow
