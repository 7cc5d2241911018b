#include "base/archive/byte_source.h"

#include <fcntl.h>
#include <zlib.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/units.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

class FileSource : public ByteSource {
 public:
  explicit FileSource(const fs::path& path) : path_(path), file_(open_or_throw(path, O_RDONLY)) {}

  size_t read(std::span<char> buffer) override {
    size_t used = 0;
    while (used < buffer.size()) {
      const size_t got = read_some(file_.get(), buffer.subspan(used), path_);
      if (got == 0) break;
      used += got;
    }
    return used;
  }

 private:
  fs::path path_;
  FileDescriptor file_;
};

class GzipSource : public ByteSource {
 public:
  explicit GzipSource(const fs::path& path) : file_(path), input_(size_t{1} << 18) {
    constexpr int kGzipOnly = 15 + 16;
    DLFLOW_CHECK(::inflateInit2(&stream_, kGzipOnly) == Z_OK);
  }
  ~GzipSource() override { ::inflateEnd(&stream_); }

  size_t read(std::span<char> buffer) override {
    stream_.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream_.avail_out = uInt(buffer.size());
    while (stream_.avail_out > 0 && !at_end_) step();
    return buffer.size() - stream_.avail_out;
  }

 private:
  void step() {
    if (stream_.avail_in == 0 && !refill()) {
      if (in_member_ || num_members_ == 0) throw corrupt("it is truncated");
      at_end_ = true;
      return;
    }
    if (!in_member_) {
      begin_member();
      return;
    }
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      in_member_ = false;
    } else if (result != Z_OK) {
      throw corrupt(stream_.msg != nullptr ? stream_.msg : "its data are invalid");
    }
  }

  /// Begins another member, or skips the zeros that fill the last block of a tape or a disk image.
  void begin_member() {
    while (num_members_ > 0 && stream_.avail_in > 0 && *stream_.next_in == 0) {
      ++stream_.next_in;
      --stream_.avail_in;
      in_padding_ = true;
    }
    if (stream_.avail_in == 0) return;
    if (in_padding_) throw corrupt("it is followed by other data");
    ++num_members_;
    in_member_ = true;
    ::inflateReset(&stream_);
  }

  bool refill() {
    stream_.avail_in = uInt(file_.read(input_));
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
    return stream_.avail_in > 0;
  }

  static Error corrupt(const std::string& what) {
    return Error(Errc::Corrupt, "the gzip file is damaged: " + what);
  }

  FileSource file_;
  std::vector<char> input_;
  z_stream stream_{};
  size_t num_members_ = 0;
  bool in_member_ = false;
  bool in_padding_ = false;
  bool at_end_ = false;
};

class LimitedSource : public ByteSource {
 public:
  LimitedSource(std::unique_ptr<ByteSource> source, ByteBudget& budget, std::string name)
      : source_(std::move(source)), budget_(budget), name_(std::move(name)) {}

  size_t read(std::span<char> buffer) override {
    const size_t got = source_->read(buffer);
    budget_.used_bytes += got;
    if (budget_.used_bytes <= budget_.max_bytes) return got;
    throw Error(Errc::InvalidInput,
                name_ + " unpacks to more than " + format_size(budget_.max_bytes) +
                    ", far more than its size suggests; it may be a decompression bomb");
  }

 private:
  std::unique_ptr<ByteSource> source_;
  ByteBudget& budget_;
  std::string name_;
};

}  // namespace

uint64_t max_unpacked_bytes(uint64_t packed_bytes) {
  uint64_t most = 0;
  if (__builtin_mul_overflow(packed_bytes, kMaxExpansion, &most)) return UINT64_MAX;
  return std::max(most, kFreeExpansion);
}

uint64_t max_unpacked_entries(uint64_t packed_bytes) {
  return kFreeEntries + packed_bytes / kBytesPerEntry;
}

std::unique_ptr<ByteSource> limit_bytes(std::unique_ptr<ByteSource> source, ByteBudget& budget,
                                        std::string name) {
  return std::make_unique<LimitedSource>(std::move(source), budget, std::move(name));
}

std::unique_ptr<ByteSource> open_file(const fs::path& path) {
  return std::make_unique<FileSource>(path);
}

std::unique_ptr<ByteSource> open_gzip(const fs::path& path) {
  return std::make_unique<GzipSource>(path);
}

bool is_gzip(const fs::path& path) {
  char magic[2] = {};
  return FileSource(path).read(magic) == 2 && magic[0] == '\x1f' && magic[1] == '\x8b';
}

}  // namespace dlflow
