#include "base/shared_bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/file.h"

namespace dlflow {

SharedBytes shared_bytes(std::string text) {
  const auto owner = std::make_shared<const std::string>(std::move(text));
  return {owner, *owner};
}

SharedBytes map_file(const std::filesystem::path& path) {
  const FileDescriptor file = open_or_throw(path, O_RDONLY);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) throw_errno("cannot read " + path.string(), errno);
  if (S_ISDIR(info.st_mode)) {
    throw Error(Errc::InvalidInput, "cannot read " + path.string() + ": it is a folder");
  }
  const auto size = size_t(info.st_size);
  if (size == 0) return {};  // mmap refuses it
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) throw_errno("cannot map " + path.string(), errno);
  return {std::shared_ptr<const void>(
              address, [size](const void* start) { ::munmap(const_cast<void*>(start), size); }),
          std::string_view(static_cast<const char*>(address), size)};
}

}  // namespace dlflow
