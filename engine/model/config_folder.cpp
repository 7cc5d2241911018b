#include "engine/model/config_folder.h"

#include <cstdlib>

namespace dlflow {

std::optional<std::filesystem::path> config_folder() {
  const char* const config = std::getenv("XDG_CONFIG_HOME");
  if (config != nullptr && *config != '\0') return std::filesystem::path(config) / "dlflow";
  const char* const home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') return std::filesystem::path(home) / ".config/dlflow";
  return std::nullopt;
}

}  // namespace dlflow
