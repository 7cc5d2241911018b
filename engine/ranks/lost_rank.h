#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "engine/ranks/rank_plan.h"

namespace dlflow {

/// Records in `plan.lost_rank` that this rank's program was ended by a signal, unless another rank
/// was first: launchers end the others then, whose ends say nothing.
void record_lost_rank(const RankPlan& plan, int signal);

/// "rank 1 (node b2): killed by signal 9 (Killed)": the first that was recorded in the file.
std::optional<std::string> read_lost_rank(const std::filesystem::path& file);

}  // namespace dlflow
