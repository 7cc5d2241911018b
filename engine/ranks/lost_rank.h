#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "engine/ranks/rank_plan.h"

namespace dlflow {

/// Records in `plan.lost_rank` that a signal ended this rank's program, unless another rank was
/// first: launchers then end the other ranks, whose ends explain nothing.
void record_lost_rank(const RankPlan& plan, int signal);

/// "rank 1 (node b2): killed by signal 9 (Killed)": the content of the file, if any.
std::optional<std::string> read_lost_rank(const std::filesystem::path& file);

}  // namespace dlflow
