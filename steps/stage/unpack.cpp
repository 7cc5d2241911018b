#include "steps/stage/unpack.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/archive/byte_source.h"
#include "base/archive/tar.h"
#include "base/archive/zip.h"
#include "base/error.h"
#include "base/file.h"
#include "base/handle.h"
#include "base/process.h"
#include "base/text.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

/// A program that decompresses standard input to standard output, within 1 GiB of memory.
struct Unpacker {
  std::string format;  ///< "xz"
  std::vector<std::string> argv;
};

fs::path path_of(const FileDescriptor& file) {
  return "/proc/self/fd/" + std::to_string(file.get());
}

class ToolSource : public ByteSource {
 public:
  ToolSource(const fs::path& packed, Unpacker unpacker)
      : unpacker_(std::move(unpacker)), errors_(::memfd_create("dlflow", MFD_CLOEXEC)) {
    std::array<int, 2> ends{};
    if (!errors_ || ::pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw_errno("cannot start " + unpacker_.format, errno);
    }
    output_.reset(ends[0]);
    const FileDescriptor input(ends[1]);
    pid_ = start({.argv = unpacker_.argv,
                  .environment = current_environment(),
                  .standard_input = packed,
                  .standard_output = path_of(input),
                  .standard_error = path_of(errors_),
                  .dies_with_parent = true});
  }
  ~ToolSource() override {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    wait_for(pid_);
  }

  size_t read(std::span<char> buffer) override {
    size_t used = 0;
    while (used < buffer.size() && pid_ != 0) {
      const ssize_t got = ::read(output_.get(), buffer.data() + used, buffer.size() - used);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw_errno("cannot read the output of " + unpacker_.format, errno);
      if (got == 0) end();
      used += size_t(got);
    }
    return used;
  }

 private:
  void end() {
    if (wait_for(std::exchange(pid_, 0)).code == 0) return;
    const std::string text = read_file(path_of(errors_));
    const std::string_view said = trim(text);
    throw Error(Errc::Corrupt, "it is damaged, or made by another version of " + unpacker_.format +
                                   ": " + std::string(said.substr(0, said.find('\n'))));
  }

  Unpacker unpacker_;
  FileDescriptor errors_;  // a file in memory
  FileDescriptor output_;
  pid_t pid_ = 0;  // 0: it has ended
};

/// Chosen by the first bytes of `packed`, for xz, bzip2 or zstd; else nothing.
std::optional<Unpacker> unpacker_of(const fs::path& packed) {
  std::array<char, 10> bytes{};
  const size_t count = open_file(packed)->read(bytes);
  const std::string_view beginning(bytes.data(), count);
  if (beginning.starts_with("\xFD"
                            "7zXZ\0"sv)) {
    return Unpacker{"xz", {"xz", "-dc", "--memlimit-decompress=1GiB"}};
  }
  if (beginning.starts_with("BZh") && count == 10 && beginning.ends_with("1AY&SY")) {
    return Unpacker{"bzip2", {"bzip2", "-dc"}};
  }
  if (beginning.starts_with("\x28\xB5\x2F\xFD"sv)) {
    return Unpacker{"zstd", {"zstd", "-dcq", "--memory=1024MB"}};
  }
  return std::nullopt;
}

/// The decompressed content of `packed`. Throws Error{NotFound} if the program is missing. For a
/// damaged file, read() throws Error{Corrupt} with the program's message, at the latest at the end.
/// The program ends with this object.
std::unique_ptr<ByteSource> open_unpacked(const fs::path& packed, const Unpacker& unpacker) {
  if (find_program(unpacker.argv[0], environment_variable("PATH"))) {
    return std::make_unique<ToolSource>(packed, unpacker);
  }
  throw Error(Errc::NotFound, "it is compressed by " + unpacker.format +
                                  ", and there is no program '" + unpacker.argv[0] +
                                  "' in PATH; install it, or compress the archive with gzip");
}

std::string note_name(const std::string& key, Unpack unpack) {
  return "unpacked/" + name(unpack) + "-" + key + ".json";
}

/// Opens a tar archive, compressed or not.
std::unique_ptr<ByteSource> open_tar(const fs::path& packed) {
  if (is_gzip(packed)) return open_gzip(packed);
  const auto unpacker = unpacker_of(packed);
  return unpacker ? open_unpacked(packed, *unpacker) : open_file(packed);
}

void read_gzip(const fs::path& packed, Unpacking& unpacking) {
  if (const auto unpacker = unpacker_of(packed)) {
    throw Error(Errc::InvalidInput, "it is compressed by " + unpacker->format +
                                        " and not by gzip; compress it with gzip, or stage it as "
                                        "it is and unpack it in a step");
  }
  const auto content = open_gzip(packed);
  std::vector<char> buffer(size_t{1} << 18);
  unpacking.begin_file("content", 0);
  for (size_t got = content->read(buffer); got > 0; got = content->read(buffer)) {
    unpacking.write({buffer.data(), got});
  }
}

/// A gzip file holds a single content; a listing shows it under the empty name.
Listing without_name(Listing listing) {
  auto only = listing.extract(listing.begin());
  only.key() = "";
  listing.insert(std::move(only));
  return listing;
}

Listing read_archive(const fs::path& packed, Unpack unpack, Unpacking& unpacking) {
  switch (unpack) {
    case Unpack::Gzip:
      read_gzip(packed, unpacking);
      return without_name(unpacking.finish());
    case Unpack::Zip:
      read_zip(packed, unpacking);
      return unpacking.finish();
    case Unpack::Tar: {
      const auto archive = open_tar(packed);
      read_tar(*archive, unpacking, max_unpacked_entries(fs::file_size(packed)));
      return unpacking.finish();
    }
    case Unpack::None:
      break;
  }
  DLFLOW_CHECK(false && "there is nothing to unpack");
  return {};
}

}  // namespace

Listing unpack_to_cache(const fs::path& packed, const std::string& key, Unpack unpack, Cache& cache,
                        UnpackLimits limits) {
  if (cache.budget_bytes() > 0) limits.max_bytes = std::min(limits.max_bytes, cache.budget_bytes());
  Unpacking unpacking([&] { return cache.new_file(); }, fs::file_size(packed), limits);
  Listing listing = read_archive(packed, unpack, unpacking);
  cache.add(unpacking.contents());
  cache.write_note(note_name(key, unpack), to_json(listing));
  return listing;
}

std::optional<Listing> remembered_listing(const std::string& key, Unpack unpack,
                                          const Cache& cache) {
  const auto note = cache.note(note_name(key, unpack));
  return note ? listing_from_json(*note) : std::nullopt;
}

}  // namespace dlflow::steps
