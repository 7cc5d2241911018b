#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"

/// `environment:` of a step: environment modules and an environment of packages, which its program
/// finds loaded. `{modules: [cuda/12], venv: .venv, lock: requirements.lock}`
namespace dlflow {

/// What is wrong with it besides its shape, to follow the step's name; empty if nothing is.
std::string problem_of_tools(const Json& tools);

/// The shell lines that load it, for POSIX sh; each ends the job with a reason if it fails.
/// \param base  what its paths are relative to
std::vector<std::string> tool_lines(const Json& tools, const std::filesystem::path& base);

/// One thing that `environment:` asks for.
struct ToolCheck {
  std::string what;  ///< "module cuda/12", "venv /home/ann/.venv"
  std::string line;  ///< for sh: loads it; exits, with a reason on standard error, if it fails
};

/// tool_lines() one by one, in their order, to find out which fail. A virtual environment must be
/// where it was made, and its Python must start.
std::vector<ToolCheck> tool_checks(const Json& tools, const std::filesystem::path& base);

/// Whether it brings a Python of its own.
bool brings_python(const Json& tools);

/// The file that says what is installed: `lock:`, or what the tool keeps itself (uv.lock, …); empty
/// if there is none to be known of. For a venv it is the folder whose names say it.
std::filesystem::path lock_of_tools(const Json& tools, const std::filesystem::path& base);

/// The virtual environment whose packages count besides lock_of_tools(), since either can change
/// without the other: of uv, and of a venv with `lock:`. Empty if there is none.
std::filesystem::path venv_beside_lock(const Json& tools, const std::filesystem::path& base);

}  // namespace dlflow
