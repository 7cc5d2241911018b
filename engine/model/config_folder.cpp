#include "engine/model/config_folder.h"

#include "base/process.h"

namespace dlflow {

std::optional<std::filesystem::path> config_folder() {
  const std::filesystem::path config = environment_variable("XDG_CONFIG_HOME");
  if (!config.empty()) return config / "dlflow";
  const std::filesystem::path home = environment_variable("HOME");
  if (!home.empty()) return home / ".config/dlflow";
  return std::nullopt;
}

}  // namespace dlflow
