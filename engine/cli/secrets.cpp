#include "engine/cli/secrets.h"

#include <algorithm>
#include <cstdlib>

namespace dlflow {
namespace {

bool has_secrets(const Plan& plan) {
  const Workflow& workflow = plan.workflow;
  return !workflow.notify.webhook.empty() || !plan.secret_variables.empty() ||
         std::any_of(workflow.steps.begin(), workflow.steps.end(),
                     [](const Step& step) { return !step.secrets.empty(); });
}

}  // namespace

Secrets secrets_of_new_run(const Plan& plan) {
  const auto may_run = [&plan](uint32_t job) { return plan.jobs[job].action != Action::Reuse; };
  return find_secrets(plan, may_run, secret_sources());
}

void keep_secrets(const Plan& plan, const Secrets& secrets) {
  if (!secrets.empty()) write_secrets(secrets_file(plan.directory), secrets);
}

void renew_secrets(Session& session, const Plan& plan) {
  if (!has_secrets(plan)) return;
  const RunStatus status = read_run(session, plan.directory.string());
  const auto may_run = [&status](uint32_t job) {
    const JobState state = status.jobs[job].state;
    return !satisfies_dependents(state) && state != JobState::Skipped;
  };
  keep_secrets(plan, find_secrets(plan, may_run, secret_sources(plan.directory)));
}

void hide_secrets(const Workflow& workflow) {
  for (const Step& step : workflow.steps) {
    for (const std::string& name : step.secrets) ::unsetenv(name.c_str());
  }
  if (!workflow.notify.webhook.empty()) ::unsetenv(workflow.notify.webhook.c_str());
}

}  // namespace dlflow
