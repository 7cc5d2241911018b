#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/plan/plan.h"
#include "engine/store/run_status.h"

/// The command that repeats a failed run without the same failure.
namespace dlflow {

/// A command that repeats the failed jobs.
struct AgainText {
  std::string command;                  ///< "dlflow resubmit sweep-0b77 --set walltime=40m"
  std::vector<std::string> notes = {};  ///< lines about when to use it, and another command
};

/// `path` as people would type it from here.
std::string from_here(const std::filesystem::path& path);

/// The command that started the run: `dlflow run …` with the workflow's present text and the same
/// `--set`, `--until` and `--profile`.
std::string run_anew(const Plan& plan);

/// Adds to `status` the parts of the plan that decide how a failed run is repeated.
void add_plan(RunStatus& status, const Plan& plan);

/// Chooses by the first job that went wrong. A job that lacked memory or time gets more. A program
/// that would fail again gets a new run if the mistake is in the workflow's text, which a run never
/// changes, else the corrected sources. A job that a node or the user ended runs again as it was.
AgainText again_text(const RunStatus& status);

}  // namespace dlflow
