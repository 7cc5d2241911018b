#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/handle.h"

namespace dlflow::runtime {

/// A file that is written to a temporary name, and appears in its place once complete and on disk.
/// The destructor removes an unpublished file. Throws Error.
class FileWriter {
 public:
  explicit FileWriter(std::filesystem::path path);
  ~FileWriter();

  void write(std::string_view bytes);

  /// Overwrites bytes written at `offset`.
  void replace(uint64_t offset, std::string_view bytes);

  void publish();

 private:
  void flush();

  std::filesystem::path path_, temporary_;
  FileDescriptor file_;
  std::string buffer_;
};

}  // namespace dlflow::runtime
