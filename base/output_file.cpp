#include "base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <system_error>
#include <utility>

#include "base/error.h"

namespace dlflow {

namespace fs = std::filesystem;

bool is_new_or_regular(const fs::path& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode);
}

void write_output(const fs::path& path, std::string_view content, Durability durability) {
  constexpr mode_t kByUmask = 0666;
  if (is_new_or_regular(path)) return replace_file(path, content, durability, kByUmask);
  FileDescriptor file = open_or_throw(path, O_WRONLY | O_CREAT | O_TRUNC, kByUmask);
  write_all(file.get(), content, path);
  close_or_throw(std::move(file), path);
}

void make_output_folder(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);  // 0777 minus the umask
  if (error) throw_errno("cannot create folder " + directory.string(), error.value());
}

}  // namespace dlflow
