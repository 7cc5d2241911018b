#include "engine/container/udocker_engine.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/file.h"
#include "base/process.h"
#include "base/text.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr std::array kFoldersForDriver = {"usr/lib/x86_64-linux-gnu", "usr/lib64"};

/// udocker makes proot report the present kernel's version; with that, Debian's proot 5.1 starts no
/// program that needs glibc 2.34 or newer. So a script removes that option.
fs::path write_proot_wrapper(const fs::path& folder, const fs::path& proot) {
  fs::path script = folder / "proot";
  write_file_atomic(script,
                    "#!/bin/sh\n"
                    "for word do\n"
                    "  shift\n"
                    "  if [ \"$skip\" ]; then skip=; continue; fi\n"
                    "  if [ \"$word\" = -k ] && [ -z \"$stop\" ]; then skip=1; continue; fi\n"
                    "  if [ \"$word\" = -r ]; then stop=1; fi\n"
                    "  set -- \"$@\" \"$word\"\n"
                    "done\n"
                    "exec " +
                        shell_quote(proot.string()) + " \"$@\"\n");
  ::chmod(script.c_str(), 0700);
  return script;
}

/// Whether /proc/PID/fd/N can be opened; a socket cannot.
bool can_be_opened(int descriptor) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) return false;
  return S_ISREG(info.st_mode) || S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode);
}

/// udocker 1.3 copies runc's output byte by byte, and loses the rest when runc ends. So a script
/// redirects runc's output to that of this process. It keeps udocker's pipe open as descriptor 3,
/// since udocker ends a runc that closes it.
fs::path write_runc_wrapper(const fs::path& folder, const fs::path& runc) {
  fs::path script = folder / "runc";
  const std::string outputs = "/proc/" + std::to_string(::getpid()) + "/fd/";
  write_file_atomic(script, "#!/bin/sh\nexec " + shell_quote(runc.string()) + " \"$@\" 3>&1 >>" +
                                outputs + "1 2>>" + outputs + "2\n");
  ::chmod(script.c_str(), 0700);
  return script;
}

/// `udocker install` puts proot and runc below the user's UDOCKER_DIR. For a container with another
/// UDOCKER_DIR, udocker needs their folder in a variable.
std::vector<std::string> installed_engine() {
  if (!environment_variable("UDOCKER_BIN").empty()) return {};
  const std::string own = environment_variable("UDOCKER_DIR");
  const fs::path home = environment_variable("HOME");
  const fs::path programs = (own.empty() ? home / ".udocker" : fs::path(own)) / "bin";
  if (!fs::is_directory(programs)) return {};
  return {"UDOCKER_BIN=" + programs.string()};
}

}  // namespace

std::vector<std::string> udocker_engine(const std::string& mode, const fs::path& cache,
                                        const fs::path& folder) {
  if (!mode.starts_with('P')) {
    const auto runc = find_program("runc", environment_variable("PATH"));
    if (!environment_variable("UDOCKER_USE_RUNC_EXECUTABLE").empty()) return {};
    if (!runc) return installed_engine();
    const bool direct = can_be_opened(STDOUT_FILENO) && can_be_opened(STDERR_FILENO);
    return {"UDOCKER_USE_RUNC_EXECUTABLE=" +
            (direct ? write_runc_wrapper(folder, *runc) : *runc).string()};
  }
  if (!environment_variable("UDOCKER_USE_PROOT_EXECUTABLE").empty()) return {};
  const auto proot = find_program("proot", environment_variable("PATH"));
  if (!proot) return installed_engine();
  return {"UDOCKER_USE_PROOT_EXECUTABLE=" + write_proot_wrapper(folder, *proot).string(),
          "UDOCKER_DIR=" + (cache / "images/udocker").string()};
}

void add_udocker_engine(Invocation& call, const std::string& mode, const fs::path& cache,
                        const fs::path& folder) {
  const auto engine = udocker_engine(mode, cache, folder);
  call.environment.insert(call.environment.begin(), engine.begin(), engine.end());
}

std::string nvidia_driver(const fs::path& root) {
  const auto text = read_file_if_exists(root / "sys/module/nvidia/version");
  const std::string version(trim(text.value_or("")));
  const bool is_version = version.find_first_not_of("0123456789.") == version.npos;
  return is_version ? version : "";
}

bool has_folder_for_driver(const fs::path& rootfs) {
  std::error_code none;
  return std::any_of(kFoldersForDriver.begin(), kFoldersForDriver.end(),
                     [&](const char* folder) { return fs::is_directory(rootfs / folder, none); });
}

bool has_cuda_library(const fs::path& rootfs) {
  std::error_code none;
  for (const char* const folder : kFoldersForDriver) {
    for (const auto& entry : fs::directory_iterator(rootfs / folder, none)) {
      const bool is_cuda = entry.path().filename().string().starts_with("libcuda.so");
      if (is_cuda && entry.is_regular_file(none) && entry.file_size(none) > 0) return true;
    }
  }
  return false;
}

}  // namespace dlflow
