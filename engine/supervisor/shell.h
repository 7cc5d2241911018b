#pragma once

#include <filesystem>

namespace dlflow {

/// Runs an interactive shell as the program of the job in `attempt_directory` would run, on this
/// machine and as one rank: in its image, behind its setup lines, with its environment, inputs and
/// secrets; in a working directory of its own, which is removed at the end, so that nothing of the
/// run changes. Returns the shell's exit status. Throws Error if the job's parents have not left
/// what it needs, or its image's runtime passes no programs on (pyxis).
int run_shell(const std::filesystem::path& attempt_directory);

}  // namespace dlflow
