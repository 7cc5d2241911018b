#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

/// Bytes that are read once, from beginning to end.
namespace dlflow {

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  /// Reads up to buffer.size() bytes; fewer only at the end, 0 after it. Throws Error.
  virtual size_t read(std::span<char> buffer) = 0;
};

/// Opens a file without decoding.
std::unique_ptr<ByteSource> open_file(const std::filesystem::path& path);

/// Decompresses a gzip file with all its members. read() throws Error{Corrupt} if `path` is
/// damaged, ends too early, or continues with other data.
std::unique_ptr<ByteSource> open_gzip(const std::filesystem::path& path);

/// Whether `path` begins like a gzip file.
bool is_gzip(const std::filesystem::path& path);

/// Against decompression bombs, where a few kilobytes expand to petabytes: unpacked data may have
/// at most this many times the packed size, or kFreeExpansion if that is more.
constexpr uint64_t kMaxExpansion = 200;
constexpr uint64_t kFreeExpansion = uint64_t{1} << 30;
uint64_t max_unpacked_bytes(uint64_t packed_bytes);

/// A few kilobytes can also hold millions of empty files: each takes an inode, while its packed
/// header may take less than ten bytes, or forty if names differ. An entry deep down in folders
/// creates those folders, too, and counts as several.
constexpr uint64_t kFreeEntries = 100'000;
constexpr uint64_t kBytesPerEntry = 16;
uint64_t max_unpacked_entries(uint64_t packed_bytes);

/// The number of bytes that may be read from several sources in total.
struct ByteBudget {
  uint64_t max_bytes = 0;
  uint64_t used_bytes = 0;
};

/// `source`, with its bytes counted in `budget`: read() throws Error{InvalidInput} beyond the
/// budget. `name` appears in messages. `budget` must outlive the result.
std::unique_ptr<ByteSource> limit_bytes(std::unique_ptr<ByteSource> source, ByteBudget& budget,
                                        std::string name);

}  // namespace dlflow
