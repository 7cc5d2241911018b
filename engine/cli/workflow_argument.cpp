#include "engine/cli/workflow_argument.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>

#include "base/file.h"
#include "base/text.h"
#include "engine/cli/bundled_workflow.h"
#include "engine/model/parse.h"
#include "engine/model/step_kinds.h"
#include "engine/share/bundle_reader.h"
#include "runtime/nn/model.h"
#include "steps/stage/request.h"

namespace dlflow {
namespace {

Json known_with(const Workflow& workflow, const Step& step, const Json& element) {
  Context context;
  context.params = &workflow.params;
  context.matrix = &element;
  return step.with.evaluate_known(context);
}

/// The file that `key` of `with` names; nothing if only a run can tell.
std::optional<std::filesystem::path> model_file(const Workflow& workflow, const Json& with,
                                                const std::string& key) {
  const auto model = with.find(key);
  if (model == with.end() || !model->is_string()) return std::nullopt;
  const std::filesystem::path folder = std::filesystem::path(workflow.file).parent_path();
  const std::filesystem::path file = folder / model->get<std::string>();
  if (!std::filesystem::is_regular_file(file)) return std::nullopt;  // the planner says so
  return file;
}

bool check_model(const std::filesystem::path& file) {
  try {
    runtime::parse_model(read_file(file), file.string());
    return true;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return false;
  }
}

/// Whether an element can copy its sources, unless only a run can tell.
bool check_request(const Workflow& workflow, const Step& step, const std::string& key,
                   const Json& with) {
  if (with.dump().find("${{") != std::string::npos) return true;
  try {
    steps::parse_request(with);
    return true;
  } catch (const Error& error) {
    const auto place = step.locations.find("with." + key);
    const Diagnostic diagnostic{
        workflow.file, place == step.locations.end() ? step.location : place->second, error.what()};
    std::fprintf(stderr, "%s\n", escaped_lines(to_string(diagnostic)).c_str());
    return false;
  }
}

/// False if an element has a mistake; the others have the same.
bool check_sources(const Workflow& workflow, const Step& step, const std::string& key) {
  const std::vector<Json> elements = matrix_elements(step.matrix);
  return std::all_of(elements.begin(), elements.end(), [&](const Json& element) {
    return check_request(workflow, step, key, known_with(workflow, step, element));
  });
}

/// Looks at each model once; `seen` are those that were looked at.
bool check_models(const Workflow& workflow, const Step& step, const std::string& key,
                  std::set<std::filesystem::path>& seen) {
  bool right = true;
  for (const Json& element : matrix_elements(step.matrix)) {
    const auto file = model_file(workflow, known_with(workflow, step, element), key);
    if (file && seen.insert(*file).second && !check_model(*file)) right = false;
  }
  return right;
}

std::shared_ptr<WorkflowArgument> add_argument(CLI::App& command, bool required) {
  auto argument = std::make_shared<WorkflowArgument>();
  command
      .add_option("workflow", argument->file,
                  "the workflow file (YAML), or a bundle of `dlflow pack`")
      ->type_name("WORKFLOW")
      ->required(required);
  command.add_option("--set", argument->set, "give a parameter another value; may be repeated")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  return argument;
}

}  // namespace

Workflow WorkflowArgument::read() const {
  BundledWorkflow opened{file, {}};
  if (is_bundle(file)) opened = open_bundled_workflow(file);
  opened.set.insert(opened.set.end(), set.begin(), set.end());
  auto result = parse_workflow(opened.file, opened.set);
  if (auto* workflow = std::get_if<Workflow>(&result)) return std::move(*workflow);
  const auto& diagnostics = std::get<Diagnostics>(result);
  for (const Diagnostic& diagnostic : diagnostics) {
    std::fprintf(stderr, "%s\n", escaped_lines(to_string(diagnostic)).c_str());
  }
  if (diagnostics.size() > 1) std::fprintf(stderr, "%zu errors.\n", diagnostics.size());
  throw AlreadyReported{};
}

void check_steps(const Workflow& workflow) {
  std::set<std::filesystem::path> seen;
  bool wrong = false;
  for (const Step& step : workflow.steps) {
    const StepKind* kind = find_step_kind(step.uses);
    if (kind == nullptr) continue;
    if (copies_sources(kind->name) && !check_sources(workflow, step, kind->sources)) wrong = true;
    if (!kind->model.empty() && !check_models(workflow, step, kind->model, seen)) wrong = true;
  }
  if (wrong) throw AlreadyReported{};
}

std::shared_ptr<WorkflowArgument> add_workflow_argument(CLI::App& command) {
  return add_argument(command, true);
}

std::shared_ptr<WorkflowArgument> add_optional_workflow_argument(CLI::App& command) {
  return add_argument(command, false);
}

PlanOptions PlanArguments::options_of(const Workflow& workflow) const {
  PlanOptions all = options;
  if (no_cache) {
    for (const Step& step : workflow.steps) all.force.push_back(step.name);
  }
  return all;
}

std::shared_ptr<PlanArguments> add_plan_arguments(CLI::App& command) {
  auto arguments = std::make_shared<PlanArguments>();
  command.add_option("--profile", arguments->profile, "the cluster to run on")
      ->type_name("NAME")
      ->capture_default_str();
  command.add_option("--until", arguments->options.until, "only this step and what it needs")
      ->type_name("STEP");
  command
      .add_option("--force", arguments->options.force, "run this step even if its result is known")
      ->type_name("STEP")
      ->take_all()
      ->allow_extra_args(false);
  command.add_flag("--no-cache", arguments->no_cache,
                   "run every step, even if its result is known");
  return arguments;
}

}  // namespace dlflow
