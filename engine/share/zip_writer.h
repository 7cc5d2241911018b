#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/archive/byte_source.h"

/// ZIP archives whose bytes depend only on their content.
namespace dlflow {

/// Writes entries in the order of the calls: one fixed time, Unix modes 0644 and 0755, deflate,
/// ZIP64 for large ones. The same entries give the same bytes.
class ZipWriter {
 public:
  /// Creates `file`, or replaces it. Throws Error.
  explicit ZipWriter(const std::filesystem::path& file);
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;
  ~ZipWriter();

  /// Adds all of `content`, which has about `bytes` bytes; returns its SHA-256. Throws Error.
  std::string add(const std::string& name, bool executable, ByteSource& content, uint64_t bytes);
  std::string add(const std::string& name, std::string_view content);

  /// Writes the directory at the archive's end, without which the archive is invalid. Throws Error.
  void close();

 private:
  void begin(const std::string& name, bool executable, uint64_t bytes);
  void write(std::string_view bytes);
  void check(int status) const;

  std::filesystem::path path_;
  void* zip_;  // minizip's
};

}  // namespace dlflow
