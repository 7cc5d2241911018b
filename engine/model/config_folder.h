#pragma once

#include <filesystem>
#include <optional>

/// Where people keep what is theirs on every cluster: profiles/, secrets.
namespace dlflow {

/// $XDG_CONFIG_HOME/dlflow, else ~/.config/dlflow; nothing if no variable tells.
std::optional<std::filesystem::path> config_folder();

}  // namespace dlflow
