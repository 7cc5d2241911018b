#include "engine/container/udocker_engine.h"

#include <sys/stat.h>

#include "base/file.h"
#include "base/process.h"
#include "base/text.h"
#include "engine/container/environment.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// udocker tells proot to pretend to be the kernel that it runs on; Debian's proot 5.1 then starts
/// no program that needs glibc 2.34 or newer. So a script takes that option away.
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

}  // namespace

std::vector<std::string> udocker_engine(const std::string& mode, const fs::path& cache,
                                        const fs::path& folder) {
  if (!mode.starts_with('P')) {
    const auto runc = find_program("runc", variable("PATH"));
    if (!runc || !variable("UDOCKER_USE_RUNC_EXECUTABLE").empty()) return {};
    return {"UDOCKER_USE_RUNC_EXECUTABLE=" + runc->string()};
  }
  if (!variable("UDOCKER_USE_PROOT_EXECUTABLE").empty()) return {};
  const auto proot = find_program("proot", variable("PATH"));
  if (!proot) return {};
  return {"UDOCKER_USE_PROOT_EXECUTABLE=" + write_proot_wrapper(folder, *proot).string(),
          "UDOCKER_DIR=" + (cache / "images/udocker").string()};
}

}  // namespace dlflow
