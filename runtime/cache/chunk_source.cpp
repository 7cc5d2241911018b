#include "runtime/cache/chunk_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kMostOpenFiles = 256;  // a process may have 1024 by default

void read_at(int descriptor, uint64_t offset, std::span<std::byte> to,
             const std::filesystem::path& path) {
  while (!to.empty()) {
    const ssize_t got = ::pread(descriptor, to.data(), to.size(), off_t(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("cannot read " + path.string(), errno);
    if (got == 0) {
      throw Error(Errc::Corrupt, path.string() + ": is shorter than it was; copy it again");
    }
    to = to.subspan(size_t(got));
    offset += uint64_t(got);
  }
}

}  // namespace

FileSource::FileSource(std::vector<std::filesystem::path> files)
    : files_(std::move(files)),
      keeps_open_(files_.size() <= kMostOpenFiles),
      opened_(files_.size()) {}

FileDescriptor FileSource::open(uint32_t file) const {
  const std::filesystem::path& path = files_[file];
  FileDescriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor) throw_errno("cannot open " + path.string(), errno);
  // Chunks are read in no order: what lies behind one is not needed next.
  ::posix_fadvise(descriptor.get(), 0, 0, POSIX_FADV_RANDOM);
  return descriptor;
}

int FileSource::opened(uint32_t file) {
  const std::lock_guard lock(mutex_);
  if (!opened_[file]) opened_[file] = open(file);
  return opened_[file].get();
}

void FileSource::read(const Chunk& chunk, std::span<std::byte> to) {
  if (keeps_open_) return read_at(opened(chunk.file), chunk.offset, to, files_[chunk.file]);
  const FileDescriptor file = open(chunk.file);
  read_at(file.get(), chunk.offset, to, files_[chunk.file]);
}

void FileSource::forget(const Chunk& chunk) {
  const FileDescriptor file = open(chunk.file);
  ::posix_fadvise(file.get(), off_t(chunk.offset), off_t(chunk.bytes), POSIX_FADV_DONTNEED);
}

}  // namespace dlflow::runtime
