#pragma once

#include <filesystem>
#include <string>

namespace dlflow {

/// `text` with what a shell would put in the place of a leading "~/" and of $NAME and ${NAME}, so
/// that one profile serves several users: "/scratch/$USER/runs".
/// Throws Error{InvalidInput}, beginning with `key`, for a variable that is not set.
std::filesystem::path shell_path(const std::string& text, const std::string& key);

}  // namespace dlflow
