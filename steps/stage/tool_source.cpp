#include "steps/stage/tool_source.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/handle.h"
#include "base/process.h"
#include "base/text.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

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
                  .directory = {},
                  .standard_input = packed,
                  .standard_output = path_of(input),
                  .standard_error = path_of(errors_),
                  .dies_with_parent = true});
  }
  ToolSource(const ToolSource&) = delete;
  ToolSource& operator=(const ToolSource&) = delete;
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
  FileDescriptor errors_;  // in memory
  FileDescriptor output_;
  pid_t pid_ = 0;  // 0: it has ended
};

}  // namespace

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

std::unique_ptr<ByteSource> open_unpacked(const fs::path& packed, const Unpacker& unpacker) {
  if (find_program(unpacker.argv[0], environment_variable("PATH"))) {
    return std::make_unique<ToolSource>(packed, unpacker);
  }
  throw Error(Errc::NotFound, "it is compressed by " + unpacker.format +
                                  ", and there is no program '" + unpacker.argv[0] +
                                  "' in PATH; install it, or compress the archive with gzip");
}

}  // namespace dlflow::steps
