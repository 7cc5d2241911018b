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
struct AlreadyReported {};

struct WorkflowArgument {
  std::string file;
  std::vector<std::string> set;

  /// Parses the file. Prints each Diagnostic on standard error and throws AlreadyReported.
  Workflow read() const;
};

std::shared_ptr<WorkflowArgument> add_workflow_argument(CLI::App& command);

/// The options of planning: --profile, --until, --force.
struct PlanArguments {
  std::string profile = "local";
  PlanOptions options;
};

std::shared_ptr<PlanArguments> add_plan_arguments(CLI::App& command);

}  // namespace dlflow
