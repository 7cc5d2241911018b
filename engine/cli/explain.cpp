#include "engine/plan/explain.h"

#include <cstdio>

#include "base/error.h"
#include "base/text.h"
#include "engine/cli/commands.h"
#include "engine/cli/images.h"
#include "engine/cli/planning.h"
#include "engine/cli/release_image.h"
#include "engine/cli/workflow_argument.h"
#include "engine/plan/run_directory.h"
#include "engine/report/explain_table.h"
#include "engine/report/json.h"

namespace dlflow {
namespace {

/// The stored plan of a run, or the plan of a workflow file if it were run now.
Plan plan_of(const WorkflowArgument& what, const PlanArguments& arguments, Session& session) {
  const std::filesystem::path file = what.file;
  if (std::filesystem::is_regular_file(file) || file.extension().string().starts_with(".y")) {
    Workflow workflow = what.read();
    Profile profile = load_profile(arguments.profile);
    use_release_image(workflow, profile);
    pin_images(workflow, profile, session.store());
    const PlanOptions options = arguments.options_of(workflow, profile);
    if (!session.quiet) std::fputs(automatic_lines(options.automatic_ranks).c_str(), stderr);
    return make_plan(std::move(workflow), profile, options, session.store(), session.store());
  }
  return load_run(session.store().directory(find_run(session, what.file)));
}

/// Adds what became of the jobs of `run` that have ended.
void add_outcomes(std::vector<Explanation>& explanations, const std::string& run,
                  Session& session) {
  const RunStatus status = refresh_run(session, run);
  for (size_t i = 0; i < explanations.size() && i < status.jobs.size(); ++i) {
    const JobRow& job = status.jobs[i];
    if (job.job != explanations[i].job || !is_final(job.state)) continue;
    explanations[i].outcome = job.started ? "ran" : "did not run";
    if (job.state != JobState::Cached) continue;
    explanations[i].outcome = "reused from " + session.store().maker(run, job.job);
    explanations[i].reason = words(Cause::NothingChanged);
  }
}

}  // namespace

void add_explain(CLI::App& app, Session& session) {
  CLI::App* command = add_command(
      app, "explain", "Show why each step of a run, or of a workflow, runs or is reused.", R"(
  dlflow explain pipeline.yaml --set epochs=30
  dlflow explain fashion-mnist-7f3a91c0 train)");
  const auto what = add_workflow_argument(*command);
  const auto arguments = add_plan_arguments(*command);
  const auto step = std::make_shared<std::string>();
  add_value(*command, "step", "STEP", *step, "only this step, or this element of it");
  add_json_option(*command, session);
  command->callback([=, &session] {
    const Plan plan = plan_of(*what, *arguments, session);
    std::vector<Explanation> all = explain(plan, session.store());
    if (!plan.run.empty()) add_outcomes(all, plan.run, session);
    std::vector<Explanation> chosen;
    for (Explanation& explanation : all) {
      const std::string& job = explanation.job;
      const bool of_step = job == *step || job.starts_with(*step + "[");
      if (step->empty() || of_step) chosen.push_back(std::move(explanation));
    }
    if (chosen.empty()) {
      throw Error(Errc::NotFound, plan.workflow.name + " has no step '" + *step + "'" +
                                      did_you_mean_or_list(*step, step_names(plan.workflow)));
    }
    if (!session.json) {
      std::fputs(explain_table(chosen, session.style()).c_str(), stdout);
      return;
    }
    Json list = Json::array();
    for (const Explanation& explanation : chosen) list.push_back(to_json(explanation));
    print_json(list);
  });
}

}  // namespace dlflow
