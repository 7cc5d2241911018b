#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/handle.h"

namespace dlflow::runtime {

/// A file that is written part by part beside its place, and appears there once it is whole and on
/// disk. What was not published is gone with this object. Throws Error.
class FileWriter {
 public:
  explicit FileWriter(std::filesystem::path path);
  ~FileWriter();

  void write(std::string_view bytes);

  /// Overwrites what was written at `offset`.
  void replace(uint64_t offset, std::string_view bytes);

  void publish();

 private:
  void flush();

  std::filesystem::path path_, temporary_;
  FileDescriptor file_;
  std::string buffer_;
};

}  // namespace dlflow::runtime
