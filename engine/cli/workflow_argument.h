#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/profile.h"
#include "engine/plan/plan.h"

/// WORKFLOW and the options for reading it, the same for run, validate, graph and explain.
namespace dlflow {

/// Thrown after mistakes in the input were printed; main exits with kBadInput.
struct AlreadyReported {
  std::string text;  ///< the printed text
};

struct WorkflowArgument {
  std::string file;
  std::vector<std::string> set;

  /// Parses the file. Prints each Diagnostic on standard error and throws AlreadyReported.
  Workflow read() const;
};

/// \param required  false: the verb accepts a run instead; without WORKFLOW, `file` is empty
std::shared_ptr<WorkflowArgument> add_workflow_argument(CLI::App& command, bool required = true);

/// Checks the models of the train steps of `workflow`, the metrics that steps name, and the sources
/// of its stage steps, as far as they are known before a run. Prints each mistake with line and
/// column, and throws AlreadyReported. Here and in check_data() the engine's command line depends
/// on runtime and steps: a wrong shape, or a source without its commit, must not cost a job.
void check_steps(const Workflow& workflow);

/// Checks the data sets of train and evaluate steps in the same way (data_check.h). Must run where
/// the workflow will run: in a bundle, or on another machine, data lies elsewhere.
void check_data(const Workflow& workflow);

/// The planning options --profile, --until, --force, --no-cache.
struct PlanArguments {
  std::string profile = default_profile();
  PlanOptions options;
  bool no_cache = false;

  /// The options for this workflow on the cluster of `profile`: --no-cache forces every step, and
  /// `ranks: auto` gets a value. Throws Error like automatic_ranks().
  PlanOptions options_of(const Workflow& workflow, const Profile& profile) const;
};

std::shared_ptr<PlanArguments> add_plan_arguments(CLI::App& command);

}  // namespace dlflow
