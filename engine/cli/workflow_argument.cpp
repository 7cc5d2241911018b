#include "engine/cli/workflow_argument.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
#include "base/text.h"
#include "engine/cli/bundled_workflow.h"
#include "engine/cli/data_check.h"
#include "engine/cli/planning.h"
#include "engine/cli/session.h"
#include "engine/model/parse.h"
#include "engine/model/step_kinds.h"
#include "engine/share/bundle_reader.h"
#include "runtime/nn/model.h"
#include "runtime/settings/train_settings.h"
#include "steps/stage/request.h"

namespace dlflow {
namespace {

/// Any path is compatible with all other settings.
bool is_path(const StepKind& kind, const std::string& key) {
  return key == kind.model || key == kind.data || key == "start_from";
}

/// Checks the settings of a training that no schema can check, unless one is known only in a run.
void check_settings(const StepKind& kind, const Json& with) {
  if (!kind.divides_into_leaves) return;
  for (const auto& [key, value] : with.items()) {
    if (!is_path(kind, key) && !is_known(value)) return;
  }
  try {
    runtime::parse_train_settings(with);
  } catch (const runtime::SettingError& error) {
    const std::string& key = error.key();
    throw DataMistake{"with." + key.substr(0, key.find('.')), error.what()};
  }
}

/// The mistakes in a model; empty if there are none.
std::string mistakes_of_model(const std::filesystem::path& file) {
  try {
    runtime::parse_model(read_file(file), file.string());
    return "";
  } catch (const Error& error) {
    return std::string(error.what()) + "\n";
  }
}

/// "w.yaml:8:33: error: …", with the location of the key in the workflow.
std::string located(const Workflow& workflow, const Step& step, const DataMistake& mistake) {
  const Diagnostic diagnostic{workflow.file, step.location_of(mistake.key), mistake.text};
  return escaped_lines(to_string(diagnostic)) + "\n";
}

/// The first mistake that each check finds in the elements of a step, except those in `told`, where
/// it is added. Elements with the same values of a check's keys are checked once.
std::string mistakes_of_elements(const Workflow& workflow, const Step& step,
                                 const std::vector<ElementCheck>& checks,
                                 std::set<std::string>& told) {
  std::vector<std::set<std::string>> seen(checks.size());
  std::vector<std::string> texts(checks.size());
  each_known_with(workflow, step, [&](const Json& with) {
    for (size_t i = 0; i < checks.size(); ++i) {
      Json values = Json::array();
      for (const std::string& key : checks[i].keys) values.push_back(with.value(key, Json()));
      const bool is_new = checks[i].keys.empty() || seen[i].insert(values.dump()).second;
      if (!texts[i].empty() || !is_new) continue;
      try {
        checks[i].check(with);
      } catch (const DataMistake& mistake) {
        if (told.insert(mistake.text).second) texts[i] = located(workflow, step, mistake);
      }
    }
  });
  return join(texts, "");
}

std::string mistakes_of_step(const Workflow& workflow, const Step& step, const StepKind& kind) {
  std::vector<ElementCheck> checks = checks_of_network(workflow, step, kind);
  checks.insert(checks.begin(),
                ElementCheck{[&](const Json& with) { check_settings(kind, with); }});
  if (copies_sources(kind.name)) {
    checks.push_back({[&](const Json& with) {
      if (is_known(with)) check_with(kind.sources, [&] { steps::parse_request(with); });
    }});
  }
  std::set<std::string> told;
  return mistakes_of_elements(workflow, step, checks, told);
}

/// Checks each model once; `seen` holds those already checked.
std::string mistakes_of_models(const Workflow& workflow, const Step& step, const std::string& key,
                               std::set<std::filesystem::path>& seen) {
  const std::filesystem::path folder = std::filesystem::path(workflow.file).parent_path();
  std::string text;
  each_known_with(workflow, step, [&](const Json& with) {
    const std::filesystem::path file = folder / known_text(with, key).value_or("");
    if (!std::filesystem::is_regular_file(file)) return;  // the planner reports it
    if (seen.insert(file).second) text += mistakes_of_model(file);
  });
  return text;
}

[[noreturn]] void report(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  throw AlreadyReported{text};
}

/// The files in `folder` (empty: here) that may be workflows or bundles, sorted.
std::vector<std::string> workflows_in(const std::filesystem::path& folder) {
  std::vector<std::string> there;
  std::error_code none;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder.empty() ? "." : folder, none)) {
    const std::string ending = entry.path().extension().string();
    if (ending != ".yaml" && ending != ".yml" && ending != ".dlflow") continue;
    there.push_back((folder / entry.path().filename()).lexically_normal().string());
  }
  std::ranges::sort(there);
  return there;
}

/// "there is no file trian.yaml; did you mean 'train.yaml'?"
[[noreturn]] void throw_no_workflow(const std::filesystem::path& file) {
  std::vector<std::string> there = workflows_in(file.parent_path());
  std::string advice = did_you_mean(file.string(), there);
  constexpr size_t kListed = 5;
  if (advice.empty() && !there.empty()) {
    there.resize(std::min(there.size(), kListed));
    advice = "; there is " + join(there, ", ");
  }
  if (advice.empty()) advice = "; `dlflow init` writes a first workflow";
  throw Error(Errc::NotFound, "there is no file " + file.string() + advice);
}

/// Finds the examples of an installation by their names in `dlflow --help`.
std::filesystem::path of_installation(const std::filesystem::path& file) {
  std::error_code none;
  if (!file.string().starts_with("workflows/") || std::filesystem::exists(file, none)) return file;
  const auto example = this_program().parent_path().parent_path() / "share/dlflow" / file;
  return std::filesystem::exists(example, none) ? example : file;
}

bool starts_with_shebang(const std::filesystem::path& file) {
  std::string begin(2, '\0');
  std::ifstream(file).read(begin.data(), 2);
  return begin == "#!";
}

/// Refuses a program or a folder given instead of a workflow.
void refuse_programs(const std::filesystem::path& file) {
  if (std::filesystem::is_directory(file)) {
    throw Error(Errc::InvalidInput, file.string() + " is a folder; name the workflow in it" +
                                        known_words(workflows_in(file)));
  }
  const std::string ending = file.extension().string();
  const bool is_program = ending == ".py" || ending == ".sh" || ending == ".ipynb";
  if (!is_program && !starts_with_shebang(file)) return;
  throw Error(Errc::InvalidInput, file.string() + " is a program, not a workflow; `dlflow init " +
                                      shell_quote(file.string()) +
                                      "` writes a workflow that runs it");
}

}  // namespace

Workflow WorkflowArgument::read() const {
  const std::filesystem::path place = of_installation(file);
  if (!std::filesystem::exists(place)) throw_no_workflow(place);
  refuse_programs(place);
  BundledWorkflow opened{place, {}};
  if (is_bundle(place)) opened = open_bundled_workflow(place);
  opened.set.insert(opened.set.end(), set.begin(), set.end());
  auto result = parse_workflow(opened.file, opened.set);
  if (auto* workflow = std::get_if<Workflow>(&result)) return std::move(*workflow);
  const auto& diagnostics = std::get<Diagnostics>(result);
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) {
    text += escaped_lines(to_string(diagnostic)) + "\n";
  }
  if (diagnostics.size() > 1) text += std::to_string(diagnostics.size()) + " errors.\n";
  report(text);
}

void check_steps(const Workflow& workflow) {
  std::set<std::filesystem::path> seen;
  std::string mistakes;
  for (const Step& step : workflow.steps) {
    const StepKind* kind = find_step_kind(step.uses);
    if (kind == nullptr) continue;
    mistakes += mistakes_of_step(workflow, step, *kind);
    if (kind->model.empty()) continue;
    mistakes += mistakes_of_models(workflow, step, kind->model, seen);
  }
  if (!mistakes.empty()) report(mistakes);
}

void check_data(const Workflow& workflow) {
  std::string mistakes;
  std::set<std::string> told;
  for (const Step& step : workflow.steps) {
    const StepKind* kind = find_step_kind(step.uses);
    if (kind == nullptr || kind->data.empty()) continue;
    mistakes += mistakes_of_elements(workflow, step, {check_of_data(workflow, step, *kind)}, told);
  }
  if (!mistakes.empty()) report(mistakes);
}

std::shared_ptr<WorkflowArgument> add_workflow_argument(CLI::App& command, bool required) {
  auto argument = std::make_shared<WorkflowArgument>();
  add_value(command, "workflow", "WORKFLOW", argument->file,
            "the workflow file (YAML), or a bundle of `dlflow pack`")
      ->required(required);
  add_repeated_option(command, "--set", "KEY=VALUE", argument->set,
                      "give a parameter another value; may be repeated");
  return argument;
}

PlanOptions PlanArguments::options_of(const Workflow& workflow, const Profile& loaded) const {
  PlanOptions all = options;
  all.automatic_ranks = automatic_ranks(workflow, loaded, options.until);
  if (no_cache) {
    for (const Step& step : workflow.steps) all.force.push_back(step.name);
  }
  return all;
}

std::shared_ptr<PlanArguments> add_plan_arguments(CLI::App& command) {
  auto arguments = std::make_shared<PlanArguments>();
  add_value(command, "--profile", "NAME", arguments->profile, "the cluster to run on")
      ->capture_default_str();
  add_value(command, "--until", "STEP", arguments->options.until,
            "only this step and what it needs");
  add_repeated_option(command, "--force", "STEP", arguments->options.force,
                      "run this step even if its result is known");
  command.add_flag("--no-cache", arguments->no_cache,
                   "run every step, even if its result is known");
  return arguments;
}

}  // namespace dlflow
