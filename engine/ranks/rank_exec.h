#pragma once

#include <filesystem>

/// `dlflow rank-exec FILE PROGRAM ARGUMENTS…`: how a launcher starts each rank of a command.
namespace dlflow {

/// Adds what the file (rank_plan.h) and the launcher tell of this rank to the environment, starts
/// the program, and stays beside it: it makes RankPlan::asked_by a SaveRequest, and records whether
/// a signal ended the program. Returns its exit status, or ends by the same signal. 127 after a
/// message if it cannot. \param argv  the program and its arguments, with a null pointer behind
/// them.
int rank_exec(const std::filesystem::path& file, char** argv);

}  // namespace dlflow
