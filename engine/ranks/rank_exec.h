#pragma once

#include <filesystem>

/// `dlflow rank-exec FILE PROGRAM ARGUMENTS…`: a launcher starts each rank of a command with it.
namespace dlflow {

/// Sets the variables of this rank from the file (rank_plan.h) and the launcher, starts the
/// program, and waits for it. Meanwhile, the signal RankPlan::asked_by starts a SaveRequest.
/// Records whether a signal ended the program. Returns its exit status, or ends by the same signal.
/// On failure, prints a message and returns 127. \param argv  the program and its arguments,
/// followed by a null pointer.
int rank_exec(const std::filesystem::path& file, char** argv);

}  // namespace dlflow
