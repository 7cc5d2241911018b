#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "engine/cli/commands.h"
#include "engine/cli/workflow_argument.h"
#include "engine/model/profile.h"
#include "engine/model/script_variables.h"
#include "engine/model/unlisted_files.h"
#include "engine/model/wasted_ranks.h"
#include "engine/ranks/rank_variables.h"
#include "engine/supervisor/inherited.h"

namespace dlflow {
namespace {

/// Whether the step has a variable of that name, whatever the caller's environment is.
bool is_given(const Step& step, const Profile& profile, const std::string& name) {
  const Json& own = step.environment.source();
  const auto of_rank = rank_variable_names();
  return name.starts_with("DLFLOW_") || std::ranges::find(of_rank, name) != of_rank.end() ||
         name == "OMP_NUM_THREADS" || own.contains(name) || step.secrets.contains(name) ||
         profile.environment.contains(name);
}

/// Variables that are set here and that a script reads, but that its step will not get: it would
/// find them empty.
void warn_of_variables(const Workflow& workflow, const Profile& profile) {
  for (const Step& step : workflow.steps) {
    if (!step.run.source().is_string()) continue;
    for (const std::string& name : variables_read(step.run.source().get<std::string>())) {
      const bool arrives = is_given(step, profile, name) || is_inherited(name, profile.inherit);
      if (arrives || std::getenv(name.c_str()) == nullptr) continue;
      const Location at = step.locations.at("run");
      std::fprintf(stderr,
                   "%s:%d:%d: warning: step '%s' reads $%s, which is set here and which it will "
                   "not get; write env: {%s: …}, or inherit: [%s] in the profile\n",
                   workflow.file.c_str(), at.line, at.column, step.name.c_str(), name.c_str(),
                   name.c_str(), name.c_str());
    }
  }
}

/// Files that a change of would not make their step run again.
void warn_of_files(const Workflow& workflow) {
  const auto base = std::filesystem::absolute(workflow.file).parent_path();
  for (const Step& step : workflow.steps) {
    for (const std::string& file : unlisted_files(step, base)) {
      const Location at = step.locations.at("run");
      std::fprintf(stderr,
                   "%s:%d:%d: warning: step '%s' names %s, which is not in its inputs: it is not "
                   "copied into the run, and a change of it does not make the step run again\n",
                   workflow.file.c_str(), at.line, at.column, step.name.c_str(), file.c_str());
    }
  }
}

/// Ranks that would only wait.
void warn_of_ranks(const Workflow& workflow) {
  for (const Step& step : workflow.steps) {
    for (const std::string& text : wasted_ranks(step, workflow.params)) {
      const auto found = step.locations.find("resources");
      const Location at = found == step.locations.end() ? step.location : found->second;
      std::fprintf(stderr, "%s:%d:%d: warning: step '%s': %s\n", workflow.file.c_str(), at.line,
                   at.column, step.name.c_str(), text.c_str());
    }
  }
}

}  // namespace

void add_validate(CLI::App& app, Session&) {
  CLI::App* command = add_command(app, "validate", "Check a workflow and report every mistake.",
                                  "  dlflow validate pipeline.yaml\n"
                                  "  dlflow validate pipeline.yaml --set epochs=30");
  const auto workflow = add_workflow_argument(*command);
  const auto profile = std::make_shared<std::string>("local");
  command->add_option("--profile", *profile, "profile that the workflow will run with")
      ->type_name("NAME")
      ->capture_default_str();
  command->callback([=] {
    const Workflow read = workflow->read();
    check_steps(read);
    warn_of_files(read);
    warn_of_ranks(read);
    warn_of_variables(read, load_profile(*profile));
  });
}

}  // namespace dlflow
