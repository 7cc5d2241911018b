#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "engine/ranks/rank_plan.h"

/// `dlflow rank-exec FILE PROGRAM ARGUMENTS…`: a launcher starts each rank of a command with it.
namespace dlflow {

/// Sets the variables of this rank from the file (rank_plan.h) and the launcher, starts the
/// program, and waits for it. Meanwhile, the signal RankPlan::asked_by starts a SaveRequest.
/// Records whether a signal ended the program. Returns its exit status, or ends by the same signal.
/// On failure, prints a message and returns 127. \param argv  the program and its arguments,
/// followed by a null pointer.
int rank_exec(const std::filesystem::path& file, char** argv);

/// Records in `plan.lost_rank` that a signal ended this rank's program, unless another rank was
/// first: launchers then end the other ranks, whose ends explain nothing.
void record_lost_rank(const RankPlan& plan, int signal);

/// "rank 1 (node b2): killed by signal 9 (Killed)": the content of the file, if any.
std::optional<std::string> read_lost_rank(const std::filesystem::path& file);

}  // namespace dlflow
