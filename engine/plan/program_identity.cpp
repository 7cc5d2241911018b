#include "engine/plan/program_identity.h"

#include <unistd.h>

#include <filesystem>

#include "base/text.h"

namespace dlflow {

namespace fs = std::filesystem;

std::string program_identity(const std::string& name, const std::string& path, FileHashes& hashes) {
  for (const std::string& folder : split(path, ':')) {
    const fs::path file =
        name.find('/') == std::string::npos ? fs::path(folder) / name : fs::path(name);
    std::error_code none;
    const bool may_run = ::access(file.c_str(), X_OK) == 0;  // the search goes on behind others
    if (!file.is_absolute() || !may_run || !fs::is_regular_file(file, none)) continue;
    return file.string() + " " + hashes.sha256(file);
  }
  return "not found";
}

std::string unknown_program(const std::string& name) {
  return "`setup:` of the profile or the step's `environment:` may decide which program " + name +
         " is, and `reuse: {program: true}` cannot look there; name it by its absolute path";
}

}  // namespace dlflow
