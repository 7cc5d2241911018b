#include "engine/cli/workflow_argument.h"

#include <cstdio>

#include "engine/model/parse.h"

namespace dlflow {

Workflow WorkflowArgument::read() const {
  auto result = parse_workflow(file, set);
  if (auto* workflow = std::get_if<Workflow>(&result)) return std::move(*workflow);
  const auto& diagnostics = std::get<Diagnostics>(result);
  for (const Diagnostic& diagnostic : diagnostics) {
    std::fprintf(stderr, "%s\n", to_string(diagnostic).c_str());
  }
  if (diagnostics.size() > 1) std::fprintf(stderr, "%zu errors.\n", diagnostics.size());
  throw AlreadyReported{};
}

std::shared_ptr<WorkflowArgument> add_workflow_argument(CLI::App& command) {
  auto argument = std::make_shared<WorkflowArgument>();
  command.add_option("workflow", argument->file, "the workflow file (YAML)")
      ->type_name("WORKFLOW")
      ->required();
  command.add_option("--set", argument->set, "give a parameter another value; may be repeated")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  return argument;
}

std::shared_ptr<PlanArguments> add_plan_arguments(CLI::App& command) {
  auto arguments = std::make_shared<PlanArguments>();
  command.add_option("--profile", arguments->profile, "the cluster to run on", true)
      ->type_name("NAME");
  command.add_option("--until", arguments->options.until, "only this step and what it needs")
      ->type_name("STEP");
  command
      .add_option("--force", arguments->options.force, "run this step even if its result is known")
      ->type_name("STEP")
      ->take_all()
      ->allow_extra_args(false);
  return arguments;
}

}  // namespace dlflow
