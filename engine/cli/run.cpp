#include <cstdio>

#include "base/error.h"
#include "engine/backend/local.h"
#include "engine/cli/bundled_workflow.h"
#include "engine/cli/chain.h"
#include "engine/cli/commands.h"
#include "engine/cli/images.h"
#include "engine/cli/run_display.h"
#include "engine/cli/secrets.h"
#include "engine/cli/workflow_argument.h"
#include "engine/plan/changes.h"
#include "engine/plan/explain.h"
#include "engine/plan/run_directory.h"
#include "engine/report/explain_table.h"
#include "engine/report/json.h"
#include "engine/run/cancel.h"
#include "engine/run/scheduler.h"

namespace dlflow {
namespace {

struct RunArguments {
  std::shared_ptr<WorkflowArgument> workflow;
  std::shared_ptr<PlanArguments> plan;
  std::string resume;
  bool dry_run = false;
  bool detach = false;
  RunOptions options;
};

void finish(Session& session, const std::string& run, const RunResult& result) {
  if (session.json) print_run_json(run, result.state);
  session.status = result.interrupted                    ? kInterrupted
                   : result.state == RunState::Succeeded ? kDone
                                                         : kStepFailed;
}

void show_plan(Session& session, const Plan& plan) {
  if (session.json) return print_json(to_json(plan));
  const size_t jobs = plan.jobs.size();
  size_t reused = 0;
  for (const PlannedJob& job : plan.jobs) reused += job.action == Action::Reuse;
  if (!session.quiet) {
    constexpr size_t kListed = 10'000;  // explaining more takes longer than anyone reads
    if (jobs <= kListed) {
      std::fputs(explain_table(explain(plan, session.store()), session.style()).c_str(), stdout);
    }
  }
  std::printf("%zu job%s, %zu reused; nothing was run.\n", jobs, jobs == 1 ? "" : "s", reused);
}

void detach(Session& session, const Plan& plan, const RunOptions& options) {
  detach_run(plan.directory, options);
  if (session.json) return print_run_json(plan.run, RunState::Running);
  std::printf("%s runs in the background; look again with `dlflow status %s`.\n", plan.run.c_str(),
              plan.run.c_str());
}

/// What works on a run that has a directory already.
template <typename Work>
auto with_engine(Session& session, const Profile& profile, Work work) {
  const auto display = make_run_display(session);
  LocalBackend backend(local_machine(profile));
  const SystemClock clock;
  return work(Services{session.store(), backend, *display, clock});
}

void start(Session& session, const RunArguments& arguments) {
  Workflow workflow = arguments.workflow->read();
  const Profile profile = load_profile(arguments.plan->profile);
  pin_images(workflow, profile, session.store());
  check_steps(workflow);
  const PlanOptions options = arguments.plan->options_of(workflow);
  Plan plan = make_plan(std::move(workflow), profile, options, session.store(), session.store());
  if (arguments.dry_run) return show_plan(session, plan);
  const Secrets secrets = secrets_of_new_run(plan);  // one that is missing is told at once
  fetch_images(plan);
  use_packed_data(plan.workflow, plan.profile);
  if (runs_on_slurm(profile)) return start_chain(session, std::move(plan), secrets);
  const auto display = make_run_display(session);
  LocalBackend backend(local_machine(plan.profile));
  const SystemClock clock;
  const Services services{session.store(), backend, *display, clock};
  create_run(plan, services);
  keep_secrets(plan, secrets);
  if (arguments.detach) return detach(session, plan, arguments.options);
  hide_secrets(plan.workflow);
  const std::string run = plan.run;
  finish(session, run, start_run(std::move(plan), services, arguments.options));
}

void resume(Session& session, const RunArguments& arguments) {
  const std::string run = find_run(session, arguments.resume);
  const std::filesystem::path directory = session.store().directory(run);
  const Plan plan = load_run(directory);
  if (runs_on_slurm(plan.profile)) return go_on_with_chain(session, plan, {});
  renew_secrets(session, plan);
  if (arguments.detach) return detach(session, plan, arguments.options);
  hide_secrets(plan.workflow);
  finish(session, run, with_engine(session, plan.profile, [&](const Services& services) {
           return resume_run(directory, services, arguments.options);
         }));
}

}  // namespace

void add_run(CLI::App& app, Session& session) {
  CLI::App* command = add_command(app, "run", "Run a workflow, or go on with a run.",
                                  "  dlflow run workflows/fashion-mnist.yaml --set epochs=5\n"
                                  "  dlflow run pipeline.yaml --until train --dry-run\n"
                                  "  dlflow run fashion-mnist.dlflow --profile beta\n"
                                  "  dlflow run --resume fashion-mnist-7f3a91c0");
  const auto arguments = std::make_shared<RunArguments>();
  arguments->workflow = add_workflow_argument(*command, Presence::Optional);
  arguments->plan = add_plan_arguments(*command);
  command->add_option("--resume", arguments->resume, "go on with this run instead")
      ->type_name("RUN");
  command->add_flag("-n,--dry-run", arguments->dry_run, "say what would run, and why; run nothing");
  command->add_flag("--detach", arguments->detach, "return at once; it goes on in the background");
  command->add_flag("--keep-going", arguments->options.keep_going,
                    "after a failure, run what does not depend on it");
  add_json_option(*command, session);
  command->callback([arguments, &session] {
    const bool has_file = !arguments->workflow->file.empty();
    if (has_file == !arguments->resume.empty()) {
      throw Error(Errc::InvalidInput, "give either a workflow to run or `--resume RUN`");
    }
    if (has_file) {
      start(session, *arguments);
    } else {
      resume(session, *arguments);
    }
  });
}

void add_resubmit(CLI::App& app, Session& session) {
  CLI::App* command = add_command(
      app, "resubmit", "Run again what failed and what waits for it; nothing that succeeded.",
      "  dlflow resubmit fashion-mnist-7f3a91c0\n"
      "  dlflow resubmit 7f3a --step train --set walltime=40m\n"
      "  dlflow resubmit 7f3a --step train --from-scratch");
  const auto run = std::make_shared<std::string>();
  const auto again = std::make_shared<PlanAgain>(PlanAgain{.failed = true});
  const auto set = std::make_shared<std::vector<std::string>>();
  const auto options = std::make_shared<RunOptions>();
  command->add_option("run", *run, "a run's name, or enough of it")->type_name("RUN")->required();
  command->add_option("--step", again->names, "only this step or job, and what waits for it")
      ->type_name("STEP")
      ->take_all()
      ->allow_extra_args(false);
  command
      ->add_option("--set", *set,
                   "what is submitted again asks for this: walltime, memory, cpus_per_rank, "
                   "gpus_per_rank, ranks")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  command->add_flag("--from-scratch", again->from_scratch,
                    "what is submitted again does not go on from its checkpoints");
  command->add_flag("--keep-going", options->keep_going,
                    "after a failure, run what does not depend on it");
  add_json_option(*command, session);
  command->callback([=, &session] {
    const std::string name = find_run(session, *run);
    const std::filesystem::path directory = session.store().directory(name);
    const Plan plan = load_run(directory);
    if (!set->empty()) again->resources = resource_settings(*set, plan.workflow);
    if (runs_on_slurm(plan.profile)) return go_on_with_chain(session, plan, *again);
    renew_secrets(session, plan);
    hide_secrets(plan.workflow);
    finish(session, name, with_engine(session, plan.profile, [&](const Services& services) {
             return resubmit_run(directory, *again, services, *options);
           }));
  });
}

void add_cancel(CLI::App& app, Session& session) {
  CLI::App* command =
      add_command(app, "cancel", "Stop a run; what can save a checkpoint does. Twice: kill.",
                  "  dlflow cancel fashion-mnist-7f3a91c0\n"
                  "  dlflow run --resume fashion-mnist-7f3a91c0      (goes on later)");
  const auto run = std::make_shared<std::string>();
  const auto steps = std::make_shared<std::vector<std::string>>();
  command->add_option("run", *run, "a run's name, or enough of it")->type_name("RUN")->required();
  command->add_option("--step", *steps, "only this step or job (SLURM)")
      ->type_name("STEP")
      ->take_all()
      ->allow_extra_args(false);
  command->callback([=, &session] {
    const std::string name = find_run(session, *run);
    const std::filesystem::path directory = session.store().directory(name);
    if (!std::filesystem::exists(directory)) return stop_lost_chain(session, name);
    if (runs_on_slurm(run_profile(directory))) return stop_chain(session, directory, *steps);
    if (!steps->empty()) {
      throw Error(Errc::InvalidInput, "a run on this machine is cancelled as a whole");
    }
    const bool ended = with_engine(session, run_profile(directory), [&](const Services& services) {
      return cancel_run(directory, services);
    });
    if (session.quiet) return;
    std::printf(ended
                    ? "%s has stopped.\n"
                    : "%s was asked to stop and is still saving; `dlflow cancel` again kills it.\n",
                name.c_str());
  });
}

}  // namespace dlflow
