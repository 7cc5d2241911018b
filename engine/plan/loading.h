#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

/// Programs whose shared libraries are missing or too old.
namespace dlflow {

/// The libraries that the dynamic loader calls missing or too old in `text`, and what to do:
/// "libmpi.so.40, which dlflow-train needs, is not found; load …". Empty if it calls none so. The
/// versions that a library has are looked up on this machine.
std::string loading_problem(std::string_view text);

/// The same of `program`, whose loader is asked; nothing of the program runs. Empty, too, for what
/// is neither a program nor a script. \param environment  that it would be started with.
std::string loading_problem_of(const std::filesystem::path& program,
                               const std::vector<std::string>& environment);

}  // namespace dlflow
