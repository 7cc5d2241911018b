#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/secret_file.h"
#include "engine/cli/session.h"
#include "engine/plan/plan.h"
#include "engine/run/again.h"

/// The verbs on runs whose jobs SLURM runs.
namespace dlflow {

bool runs_on_slurm(const Profile& profile);

/// `dlflow run WORKFLOW`: submits the whole plan.
void start_chain(Session& session, Plan plan, const Secrets& secrets);

/// `dlflow run --resume`, `dlflow resubmit`.
void go_on_with_chain(Session& session, const Plan& plan, const PlanAgain& again);

/// `dlflow cancel`.
void stop_chain(Session& session, const std::filesystem::path& directory,
                const std::vector<std::string>& names);

/// `dlflow cancel` of a run whose directory is gone.
void stop_lost_chain(Session& session, const std::string& run);

/// What is known of runs: their records, and what SLURM says now, asked once for all of them.
std::vector<RunStatus> refresh_chain_statuses(Session& session,
                                              const std::vector<std::filesystem::path>& directories,
                                              Detail detail);

}  // namespace dlflow
