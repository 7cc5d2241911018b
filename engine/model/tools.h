#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"

/// `environment:` of a step: environment modules and an environment of packages to load for its
/// program. `{modules: [cuda/12], venv: .venv, lock: requirements.lock}`
namespace dlflow {

/// Describes a mistake that the shape cannot detect, to follow the step's name; otherwise empty.
std::string problem_of_tools(const Json& tools);

/// The lines of POSIX sh that load it; each ends the job with a reason if it fails.
/// \param base  the folder that its paths are relative to
std::vector<std::string> tool_lines(const Json& tools, const std::filesystem::path& base);

/// One item that `environment:` asks for.
struct ToolCheck {
  std::string what;  ///< "module cuda/12", "venv /home/ann/.venv"
  std::string line;  ///< for sh: loads it, or exits with a reason on standard error
};

/// tool_lines() one by one, in the same order, to find out which fail. A virtual environment must
/// be where it was created, and its Python must start.
std::vector<ToolCheck> tool_checks(const Json& tools, const std::filesystem::path& base);

/// Whether the environment has its own Python.
bool brings_python(const Json& tools);

/// The file that lists the installed packages: `lock:`, or the tool's own (uv.lock, …); empty if
/// none is known. For a venv it is its folder, whose file names list them.
std::filesystem::path lock_of_tools(const Json& tools, const std::filesystem::path& base);

/// The virtual environment whose packages count in addition to lock_of_tools(), since either can
/// change without the other: uv's environment, or a venv with `lock:`. Empty if there is none.
std::filesystem::path venv_beside_lock(const Json& tools, const std::filesystem::path& base);

}  // namespace dlflow
