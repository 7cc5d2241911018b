#pragma once

#include <filesystem>
#include <string>

#include "engine/plan/plan.h"
#include "engine/store/run_status.h"

/// The command for a run that failed, so that it does not fail again the same way.
namespace dlflow {

/// The command that runs again what failed.
struct AgainText {
  std::string command;  ///< "dlflow resubmit sweep-0b77 --set walltime=40m"
  std::string note;     ///< what has to be done before; may be empty
};

/// `path` as people would type it from here.
std::string from_here(const std::filesystem::path& path);

/// `dlflow run …` as the run was started: the workflow's present text with the same `--set`,
/// `--until` and `--profile`.
std::string run_anew(const Plan& plan);

/// Adds what only the plan knows, and what decides how a run that failed is repeated.
void add_plan(RunStatus& status, const Plan& plan);

/// For the first job that went wrong: more of what it lacked; for a program that would end the same
/// way a new run, if the mistake is in the workflow's own text (which a run keeps as it was), else
/// the sources that were corrected; or nothing more, if a node or the user ended it.
AgainText again_text(const RunStatus& status);

}  // namespace dlflow
