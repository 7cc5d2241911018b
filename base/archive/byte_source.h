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

/// A few kilobytes can hold petabytes: what is packed may become so many times its size, and more
/// only as long as it is less than kFreeExpansion.
constexpr uint64_t kMaxExpansion = 200;
constexpr uint64_t kFreeExpansion = uint64_t{1} << 30;
uint64_t max_unpacked_bytes(uint64_t packed_bytes);

/// So can they hold millions of empty files: each takes an inode, and its header less than ten
/// bytes once it is packed, where those of different names take forty. An entry far down in folders
/// stands for those, too, and counts as several.
constexpr uint64_t kFreeEntries = 100'000;
constexpr uint64_t kBytesPerEntry = 16;
uint64_t max_unpacked_entries(uint64_t packed_bytes);

/// How much may be read of several sources together.
struct ByteBudget {
  uint64_t max_bytes = 0;
  uint64_t used_bytes = 0;
};

/// `source`, which counts what is read in `budget`, and throws Error{InvalidInput} from read() when
/// that is too much; `name` is for people. `budget` outlives it.
std::unique_ptr<ByteSource> limit_bytes(std::unique_ptr<ByteSource> source, ByteBudget& budget,
                                        std::string name);

}  // namespace dlflow
