#pragma once

#include <filesystem>

/// `dlflow rank-exec FILE PROGRAM ARGUMENTS…`: how a launcher starts each rank of a command.
namespace dlflow {

/// Adds what the file (rank_plan.h) and the launcher tell of this rank to the environment, and
/// becomes the program. Where that is to be asked to save by SIGTERM, it starts the program
/// instead, passes signals on, SIGUSR1 as SIGTERM, and returns the program's exit status. 127 after
/// a message if it cannot. \param argv  the program and its arguments, with a null pointer behind
/// them.
int rank_exec(const std::filesystem::path& file, char** argv);

}  // namespace dlflow
