#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

/// Bytes that are read once, from front to back.
namespace dlflow {

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  /// Reads up to buffer.size() bytes; fewer only at the end, 0 after it. Throws Error.
  virtual size_t read(std::span<char> buffer) = 0;
};

/// A file as it is.
std::unique_ptr<ByteSource> open_file(const std::filesystem::path& path);

/// What a gzip file holds, all its members one after the other. Throws Error{Corrupt} from read()
/// where `path` is damaged, ends too early, or goes on with something else.
std::unique_ptr<ByteSource> open_gzip(const std::filesystem::path& path);

/// `path` begins as a gzip file does.
bool is_gzip(const std::filesystem::path& path);

}  // namespace dlflow
