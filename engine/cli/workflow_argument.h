#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/profile.h"
#include "engine/plan/plan.h"
#include "engine/store/store.h"

/// WORKFLOW and the options that say how to read it: the same for run, validate, graph and explain.
namespace dlflow {

/// The input is wrong in ways that were printed already; main exits with kBadInput.
struct AlreadyReported {
  std::string text;  ///< as it was printed
};

struct WorkflowArgument {
  std::string file;
  std::vector<std::string> set;

  /// Parses the file. Prints each Diagnostic on standard error and throws AlreadyReported.
  Workflow read() const;
};

std::shared_ptr<WorkflowArgument> add_workflow_argument(CLI::App& command);

/// For a verb that also takes a run instead: `file` is empty without WORKFLOW.
std::shared_ptr<WorkflowArgument> add_optional_workflow_argument(CLI::App& command);

/// Checks the models that the train steps of `workflow` name, the metrics that steps name of their
/// networks, and the sources of its stage steps, as far as they are known before a run: prints what
/// is wrong with each, with line and column, and throws AlreadyReported. Here and in check_data()
/// the engine's command line looks into runtime and steps: a shape that does not fit, or a source
/// without its commit, must not cost a job.
void check_steps(const Workflow& workflow);

/// Checks the data sets of train and evaluate steps in the same way (data_check.h), where the
/// workflow is to run: in a bundle, or on another machine, they lie elsewhere.
void check_data(const Workflow& workflow);

/// The options of planning: --profile, --until, --force, --no-cache.
struct PlanArguments {
  std::string profile = default_profile();
  PlanOptions options;
  bool no_cache = false;

  /// For this workflow on the cluster of `profile`: with --no-cache, every step is forced; and what
  /// `ranks: auto` means. Throws Error as automatic_ranks().
  PlanOptions options_of(const Workflow& workflow, const Profile& profile) const;
};

std::shared_ptr<PlanArguments> add_plan_arguments(CLI::App& command);

}  // namespace dlflow
