#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/backend/gone_host.h"
#include "engine/cli/bundled_workflow.h"
#include "engine/cli/commands.h"
#include "engine/cli/images.h"
#include "engine/cli/planning.h"
#include "engine/cli/release_image.h"
#include "engine/cli/session.h"
#include "engine/cli/usage.h"
#include "engine/cli/warnings.h"
#include "engine/cli/workflow_argument.h"
#include "engine/plan/changes.h"
#include "engine/plan/explain.h"
#include "engine/plan/extension.h"
#include "engine/plan/plan.h"
#include "engine/plan/run_directory.h"
#include "engine/plan/secrets.h"
#include "engine/plan/sources.h"
#include "engine/report/again_text.h"
#include "engine/report/chain_text.h"
#include "engine/report/explain_table.h"
#include "engine/report/json.h"
#include "engine/run/batch_systems.h"
#include "engine/run/new_sources.h"
#include "engine/run/reuses.h"
#include "engine/run/verbs.h"

namespace dlflow {
namespace {

bool has_secrets(const Plan& plan) {
  const Workflow& workflow = plan.workflow;
  return !workflow.notify.webhook.empty() || !plan.secret_variables.empty() ||
         std::any_of(workflow.steps.begin(), workflow.steps.end(),
                     [](const Step& step) { return !step.secrets.empty(); });
}

/// The secrets of a new run. Throws like find_secrets.
Secrets secrets_of_new_run(const Plan& plan) {
  const auto may_run = [&plan](uint32_t job) { return plan.jobs[job].action != Action::Reuse; };
  return find_secrets(plan, may_run, secret_sources());
}

/// Writes RUN/secrets, if there are any.
void keep_secrets(const Plan& plan, const Secrets& secrets) {
  if (!secrets.empty()) write_secrets(secrets_file(plan.directory), secrets);
}

/// Before a run is resumed, writes the secrets of jobs that may still run to RUN/secrets, with new
/// values if there are any. Throws like find_secrets.
void renew_secrets(Session& session, const Plan& plan) {
  if (!has_secrets(plan)) return;
  const RunStatus status = read_run(session, plan.directory.string());
  const auto may_run = [&status](uint32_t job) {
    const JobState state = status.jobs[job].state;
    return !satisfies_dependents(state) && state != JobState::Skipped;
  };
  keep_secrets(plan, find_secrets(plan, may_run, secret_sources(plan.directory)));
}

/// Removes all secrets of `workflow` from the environment that child processes inherit, including
/// the batch system.
void hide_secrets(const Workflow& workflow) {
  for (const Step& step : workflow.steps) {
    for (const std::string& name : step.secrets) ::unsetenv(name.c_str());
  }
  if (!workflow.notify.webhook.empty()) ::unsetenv(workflow.notify.webhook.c_str());
}

/// Reports which jobs were submitted or changed in the scheduler's queue.
void print_queued(const Plan& plan, const ChainResult& result, const Style& style) {
  if (!result.submitted.empty()) {
    std::fputs(chain_text(plan, result.submitted, style).c_str(), stdout);
    if (!result.excluded_nodes.empty()) {
      std::printf("  without %s, where jobs were lost: dlflow status --nodes\n",
                  join(result.excluded_nodes, ", ").c_str());
    }
  }
  for (const std::string& job : result.adopted) {
    std::printf("  %s had already been submitted; this run continues it\n", job.c_str());
  }
  constexpr size_t kListed = 10;
  const size_t listed = std::min(kListed, result.repointed.size());
  for (size_t i = 0; i < listed; ++i) {
    std::printf("  %s now waits for the new jobs\n", result.repointed[i].c_str());
  }
  if (const size_t more = result.repointed.size() - listed; more > 0) {
    std::printf("  and %s more\n", plural(more, "job").c_str());
  }
}

/// Prints what users must or may do for the rest of the run.
void print_left_to_do(const Plan& plan, const ChainResult& result) {
  for (const std::string& job : result.too_early) {
    std::printf(
        "  %s is already running with the old results. To repeat it: dlflow cancel %s --step %s,\n"
        "  then dlflow resubmit %s --step %s --from-scratch\n",
        job.c_str(), plan.run.c_str(), shell_quote(job).c_str(), plan.run.c_str(),
        shell_quote(job).c_str());
  }
  if (result.held_back > 0) {
    std::printf(
        "%s not submitted yet: %s allows %d at a time. When some have ended,\n"
        "`dlflow run --resume %s` submits more.\n",
        plural(result.held_back, "job").c_str(), plan.profile.name.c_str(),
        plan.profile.limits.jobs, plan.run.c_str());
  }
  for (const std::string& job : result.failed_here) {
    std::printf("  %s failed on the login node: dlflow logs %s %s, then dlflow resubmit %s\n",
                job.c_str(), plan.run.c_str(), job.c_str(), plan.run.c_str());
  }
  for (const std::string& job : result.later_here) {
    std::printf(
        "  %s runs on the login node. When its parents have ended, type\n"
        "  `dlflow run --resume %s`\n",
        job.c_str(), plan.run.c_str());
  }
}

/// The last line if no job was submitted: what the user can do next, by the state of the run.
std::string after_no_submission(RunState state, const std::string& run) {
  if (state == RunState::Succeeded) {
    return "All jobs are done, so nothing was submitted: dlflow results " + run;
  }
  if (state == RunState::Failed) {
    return "Nothing was submitted. What failed is repeated with\n  dlflow resubmit " + run;
  }
  return "Nothing new was submitted; look again with `dlflow status`.";
}

void print_submitted(const Session& session, const Plan& plan, const Outcome& outcome) {
  if (session.quiet) return;
  const ChainResult& result = *outcome.chain;
  print_queued(plan, result, session.style());
  print_left_to_do(plan, result);
  if (result.interrupted) {
    std::printf("Stopped; nothing was submitted. `dlflow run --resume %s` continues it.\n",
                plan.run.c_str());
    return;
  }
  if (result.kept > 0) std::printf("%s kept.\n", plural(result.kept, "finished job").c_str());
  const bool nothing = result.submitted.empty() && result.adopted.empty();
  const std::string next =
      nothing ? after_no_submission(outcome.state, plan.run)
              : "Submitted. Nothing keeps running here; look again with `dlflow status`.";
  std::printf("%s\n", next.c_str());
}

/// The last line of `run --json`.
void print_run_json(const std::string& run, RunState state) {
  std::printf("%s\n", Json{{"run", run}, {"state", name(state)}}.dump().c_str());
}

void report_outcome(Session& session, const Plan& plan, const Outcome& outcome) {
  if (session.json) print_run_json(plan.run, outcome.state);
  if (outcome.chain) {
    if (outcome.chain->held_back > 0) session.status = kBackendRefused;
    if (!outcome.chain->failed_here.empty()) session.status = kStepFailed;
    if (outcome.interrupted) session.status = kInterrupted;
    if (!session.json) print_submitted(session, plan, outcome);
    return;
  }
  keep_track(session, plan.run);
  if (!plan.workflow.track.clients.empty() && !session.quiet && !session.json) {
    std::printf("  trackers  dlflow sync %s\n", plan.run.c_str());
  }
  session.status = outcome.interrupted                    ? kInterrupted
                   : outcome.state == RunState::Succeeded ? kDone
                                                          : kStepFailed;
}

/// Reports a run that continues in the background.
void report_detached(Session& session, const Plan& plan, const Outcome& outcome) {
  if (outcome.chain) return report_outcome(session, plan, outcome);
  if (session.json) return print_run_json(plan.run, RunState::Running);
  std::printf("%s runs in the background; look again with\n  dlflow status %s\n", plan.run.c_str(),
              plan.run.c_str());
}

void report_cancelled(const Session& session, const std::string& run, const Cancelled& cancelled) {
  if (session.json) {
    const bool chain = cancelled.chain.has_value();
    return print_json({{"run", run},
                       {"ended", cancelled.ended},
                       {"cancelled", chain ? Json(cancelled.chain->cancelled) : Json()},
                       {"saving", chain ? Json(cancelled.chain->saving) : Json()}});
  }
  if (session.quiet) return;
  if (!cancelled.chain) {
    std::printf(cancelled.ended
                    ? "%s has stopped.\n"
                    : "%s was asked to stop and is still saving; `dlflow cancel` again kills it.\n",
                run.c_str());
    return;
  }
  std::printf("%s cancelled", plural(cancelled.chain->cancelled, "job").c_str());
  if (cancelled.chain->saving > 0) {
    std::printf(", %s asked to save and to end; `dlflow cancel` again kills it",
                plural(cancelled.chain->saving, "job").c_str());
  }
  std::printf(".\n");
}

struct RunArguments {
  std::shared_ptr<WorkflowArgument> workflow;
  std::shared_ptr<PlanArguments> plan;
  std::string resume;
  bool dry_run = false;
  bool detach = false;
  RunOptions options;
};

/// "train: 3 input files for each of 1,000 jobs, 3,000 copies\n" for each step with many copies.
std::string copies_of_sweeps(const Plan& plan) {
  constexpr size_t kMany = 100;
  std::vector<size_t> jobs(plan.steps.size());
  for (const PlannedJob& job : plan.jobs) jobs[job.step] += job.action != Action::Reuse;
  std::string text;
  for (uint32_t step = 0; step < plan.steps.size(); ++step) {
    std::map<std::string, std::string> inputs;
    for (const std::string& name : plan.steps[step].inputs) {
      inputs.emplace(name, (plan.base / name).string());
    }
    const size_t copied = copied_inputs(inputs).size();
    if (copied * jobs[step] < kMany || jobs[step] < 2) continue;
    text += plan.workflow.steps[step].name + ": " + plural(copied, "input file") + " for each of " +
            plural(jobs[step], "job") + ", " + std::to_string(copied * jobs[step]) + " copies\n";
  }
  return text;
}

/// Shows what each job would do, and why; for a cluster, also what would be submitted.
void show_plan(Session& session, const Plan& plan, const std::vector<PreviewedBatch>& batches) {
  if (session.json) {
    Json json = to_json(plan);
    json["batches"] = to_json(plan, batches);
    return print_json(json);
  }
  const size_t jobs = plan.jobs.size();
  const size_t reused = plan.reused.size();
  if (!session.quiet) {
    constexpr size_t kListed = 10'000;  // nobody reads more
    if (jobs <= kListed) {
      std::fputs(explain_table(explain(plan, session.store()), session.style()).c_str(), stdout);
    }
    if (!batches.empty()) {
      std::printf("\n%s", preview_text(plan, batches).c_str());
    }
    if (session.verbose) std::fputs(preview_scripts(plan, batches).c_str(), stdout);
  }
  if (!session.quiet) std::fputs(copies_of_sweeps(plan).c_str(), stdout);
  const std::string submissions =
      batches.empty() ? ""
                      : " in " + plural(batches.size(), "submission") + " to " + plan.profile.name;
  std::printf("%s%s would run, %s %s reused; nothing was run.\n",
              count_of_jobs(plan, false).c_str(), submissions.c_str(), format_count(reused).c_str(),
              reused == 1 ? "is" : "are");
}

void announce(const Session& session, const std::string& line) {
  if (line.empty() || session.quiet || session.json) return;
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

bool is_at_work(Session& session, const std::string& run) {
  try {
    return refresh_run(session, run).state == RunState::Running;
  } catch (const Error&) {  // its scheduler may be down, for example, which must not stop this run
    return true;
  }
}

/// Reports that another run is making the same results, and how to avoid that.
void tell_of_twin(Session& session, const Plan& plan) {
  if (session.quiet) return;
  const auto twin = find_twin(plan, session.store());
  if (!twin || !is_at_work(session, twin->run)) return;
  std::fprintf(stderr,
               "note: %s is running %s of this run, too. To use its results, end this run\n"
               "  (dlflow cancel %s) and start it again when the other run has ended.\n",
               twin->run.c_str(), plural(twin->jobs, "job").c_str(), plan.run.c_str());
}

/// Checks before the start that the programs of the steps that may run can be loaded. Throws
/// Error{NotFound} if they run on this machine. Otherwise warns, since the nodes may differ.
void check_programs(const Session& session, const Plan& plan) {
  std::set<uint32_t> steps;
  for (const PlannedJob& job : plan.jobs) {
    if (job.action != Action::Reuse) steps.insert(job.step);
  }
  for (const uint32_t step : steps) {
    const std::string problem = loading_problem_of(plan.workflow.steps[step], plan.profile);
    if (problem.empty()) continue;
    if (!is_batch_system(plan.profile.scheduler)) throw Error(Errc::NotFound, problem);
    if (!session.quiet) std::fprintf(stderr, "warning: %s\n", escaped(problem).c_str());
  }
}

void cancel_lost(Session& session, const std::string& run) {
  const size_t cancelled = cancel_lost_run(run, session.store(), SystemClock());
  if (session.json) {
    return print_json({{"run", run}, {"ended", true}, {"cancelled", cancelled}, {"saving", 0}});
  }
  if (session.quiet) return;
  std::printf("The directory of %s is gone: %s\n%s of the run cancelled in the queue.\n",
              run.c_str(), session.store().directory(run).c_str(),
              plural(cancelled, "job").c_str());
}

void start(Session& session, const RunArguments& arguments) {
  Workflow workflow = arguments.workflow->read();
  Profile profile = load_profile(arguments.plan->profile);
  for (const std::string& line : use_release_image(workflow, profile)) {
    if (!session.quiet) std::fprintf(stderr, "note: %s\n", escaped(line).c_str());
  }
  pin_images(workflow, profile, session.store());
  check_steps(workflow);
  check_data(workflow);
  if (!session.quiet) std::fputs(warning_lines(warnings_of_programs(workflow)).c_str(), stderr);
  PlanOptions options = arguments.plan->options_of(workflow, profile);
  options.set = arguments.workflow->set;
  options.predictions = predictions_of(workflow, profile, options.automatic_ranks);
  if (!session.quiet) std::fputs(automatic_lines(options.automatic_ranks).c_str(), stderr);
  Plan plan = make_plan(std::move(workflow), profile, options, session.store(), session.store());
  check_programs(session, plan);
  if (arguments.dry_run) {
    return show_plan(session, plan, session.verbs(profile.scheduler)->preview(plan));
  }
  const Secrets secrets = secrets_of_new_run(plan);  // reports missing ones early
  fetch_images(plan);
  use_packed_data(plan.workflow, plan.profile);
  // A background dlflow reads the values from the caller's environment itself.
  if (!arguments.detach) hide_secrets(plan.workflow);
  const auto verbs = session.verbs(profile.scheduler);  // captures the environment
  verbs->create(plan);
  keep_secrets(plan, secrets);
  announce(session, verbs->announcement(plan));
  tell_of_twin(session, plan);
  if (arguments.detach) {
    return report_detached(session, plan, verbs->detach(plan, arguments.options));
  }
  report_outcome(session, plan, verbs->start(plan, arguments.options));
}

bool has_nothing_left(const RunStatus& status) {
  return status.state == RunState::Succeeded &&
         std::ranges::all_of(status.jobs, [](const JobRow& job) {
           return satisfies_dependents(job.state) || job.state == JobState::Skipped;
         });
}

void report_nothing_left(Session& session, const std::string& run) {
  if (session.json) print_run_json(run, RunState::Succeeded);
  announce(session, run + " has already succeeded; nothing to do.");
}

void resume(Session& session, const RunArguments& arguments) {
  const std::string run = find_run(session, arguments.resume);
  const std::filesystem::path directory = session.store().directory(run);
  if (has_nothing_left(read_run(session, run))) return report_nothing_left(session, run);
  const Plan plan = load_run(directory);
  renew_secrets(session, plan);
  if (!arguments.detach) hide_secrets(plan.workflow);
  const auto verbs = session.verbs(plan.profile.scheduler);
  if (arguments.detach) {
    return report_detached(session, plan, verbs->detach(plan, arguments.options));
  }
  report_outcome(session, plan, verbs->resume(directory, arguments.options));
}

/// "train.py, model.yaml and 3 more"
std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kNamed = 3;
  const std::span<const std::string> shown(names.data(), std::min(kNamed, names.size()));
  const size_t more = names.size() - shown.size();
  return join(shown, ", ") + (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

/// The workflow's file if its text differs from the run's; otherwise empty.
std::string changed_workflow(const Plan& plan) {
  const std::filesystem::path file =
      plan.base / std::filesystem::path(plan.workflow.file).filename();
  std::error_code none;
  if (!std::filesystem::is_regular_file(file, none)) return "";
  return read_file(file) == plan.workflow.text ? "" : file.filename().string();
}

/// Reports on standard error which sources changed since the run was made, and the consequences.
/// Throws Error{InvalidInput} if none did although `again` asks for new ones.
void tell_of_sources(Session& session, const Plan& plan, const PlanAgain& again) {
  const std::vector<std::string> changed = changed_sources(plan, session.store());
  const std::string file = escaped(changed_workflow(plan));
  if (changed.empty() && again.new_sources) {
    throw Error(Errc::InvalidInput,
                "nothing that the steps read has changed since the run was made; " +
                    (file.empty() ? "correct it first, or leave --with-new-sources out"
                                  : file + " has: type `" + run_anew(plan) + "`"));
  }
  if (session.quiet) return;
  if (!file.empty()) {
    std::fprintf(stderr,
                 "%s has changed since, and this run keeps its old text; `%s` runs the new text "
                 "and reuses what is still valid.\n",
                 file.c_str(), run_anew(plan).c_str());
  }
  if (changed.empty()) return;
  const std::string names = escaped(some_of(changed));
  if (again.new_sources) {
    std::fprintf(stderr, "Changed since the run was made: %s\n", names.c_str());
  } else {
    std::fprintf(stderr,
                 "Changed since the run was made: %s; the run keeps its own copies.\n"
                 "--with-new-sources uses the changes and reruns the jobs that read them.\n",
                 names.c_str());
  }
}

}  // namespace

void add_run(CLI::App& app, Session& session) {
  CLI::App* command = add_command(app, "run", "Run a workflow, or continue a run.", R"(
  dlflow run workflows/fashion-mnist.yaml --set epochs=5
  dlflow run pipeline.yaml --until train --dry-run
  dlflow run fashion-mnist.dlflow --profile beta
  dlflow run --resume fashion-mnist-7f3a91c0)");
  const auto arguments = std::make_shared<RunArguments>();
  arguments->workflow = add_workflow_argument(*command, false);
  arguments->plan = add_plan_arguments(*command);
  CLI::Option* const resume_option = add_value(*command, "--resume", "RUN", arguments->resume,
                                               "continue this run instead of starting a new one");
  command->add_flag(
      "-n,--dry-run", arguments->dry_run,
      "print what would run, and why; for a cluster check its limits, and show what would be "
      "submitted (with -v the scripts); run nothing");
  command->add_flag("--detach", arguments->detach,
                    "return at once; the run continues in the background");
  command->add_flag("--keep-going", arguments->options.keep_going,
                    "after a failure, run what does not depend on it");
  add_json_option(*command, session);
  // A run keeps its plan; options that would change it are for new runs only.
  for (const char* const name :
       {"--set", "--profile", "--until", "--force", "--no-cache", "--dry-run"}) {
    command->get_option(name)->excludes(resume_option);
  }
  command->callback([arguments, &session] {
    const bool has_file = !arguments->workflow->file.empty();
    if (has_file == !arguments->resume.empty()) {
      throw UsageError("give either a workflow to run or `--resume RUN`");
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
      app, "resubmit", "Rerun failed jobs and those waiting for them; keep what succeeded.", R"(
  dlflow resubmit fashion-mnist-7f3a91c0
  dlflow resubmit 7f3a --step train --set walltime=40m
  dlflow resubmit 7f3a --with-new-sources      (after a correction)
  dlflow resubmit 7f3a --step train --from-scratch)");
  const auto run = std::make_shared<std::string>();
  const auto again = std::make_shared<PlanAgain>(PlanAgain{.failed = true});
  const auto set = std::make_shared<std::vector<std::string>>();
  const auto options = std::make_shared<RunOptions>();
  add_run_argument(*command, *run)->required();
  add_repeated_option(*command, "--step", "STEP", again->names,
                      "only this step or job, and what waits for it");
  add_repeated_option(*command, "--set", "KEY=VALUE", *set,
                      "change a resource of the jobs that are submitted again: walltime, memory, "
                      "cpus_per_rank, gpus_per_rank, ranks");
  command->add_flag("--with-new-sources", again->new_sources,
                    "use models, scripts and data as they are now: all jobs that read a changed "
                    "one start again from the beginning, and so do jobs that need their results");
  command->add_flag(
      "--from-scratch", again->from_scratch,
      "start jobs that are submitted again from the beginning, not from a checkpoint");
  command->add_flag("--keep-going", options->keep_going,
                    "after a failure, run what does not depend on it");
  add_json_option(*command, session);
  command->callback([=, &session] {
    const std::string name = find_run(session, *run);
    const std::filesystem::path directory = session.store().directory(name);
    const Plan plan = load_run(directory);
    if (!set->empty()) again->resources = resource_settings(*set, plan.workflow, run_anew(plan));
    tell_of_sources(session, plan, *again);
    const bool asks = again->new_sources || !again->names.empty() || !set->empty();
    if (!asks && has_nothing_left(read_run(session, name))) {
      return report_nothing_left(session, name);
    }
    renew_secrets(session, plan);
    hide_secrets(plan.workflow);
    report_outcome(session, plan,
                   session.verbs(plan.profile.scheduler)->resubmit(directory, *again, *options));
  });
}

void add_cancel(CLI::App& app, Session& session) {
  CLI::App* command =
      add_command(app, "cancel",
                  "Stop a run; jobs that can save a checkpoint do so. A second cancel kills.", R"(
  dlflow cancel fashion-mnist-7f3a91c0
  dlflow run --resume fashion-mnist-7f3a91c0      (continues later))");
  const auto run = std::make_shared<std::string>();
  const auto steps = std::make_shared<std::vector<std::string>>();
  const auto gone = std::make_shared<std::string>();
  add_run_argument(*command, *run)->required();
  add_repeated_option(*command, "--step", "STEP", *steps, "only this step or job (on a cluster)");
  add_value(*command, "--gone", "HOST", *gone,
            "give up the jobs on this machine, which is gone for good");
  add_json_option(*command, session);
  command->callback([=, &session] {
    const std::string name = find_run(session, *run);
    const std::filesystem::path directory = session.store().directory(name);
    if (!std::filesystem::exists(directory)) return cancel_lost(session, name);
    const std::string scheduler = run_profile(directory).scheduler;
    if (!gone->empty() && is_batch_system(scheduler)) {
      throw UsageError(
          "--gone is for runs without a batch system; a batch system tracks its nodes itself");
    }
    if (!gone->empty()) declare_gone(directory, *gone);
    if (!session.json && steps->empty() && has_nothing_left(read_run(session, name))) {
      return announce(session, name + " had already succeeded; nothing to stop.");
    }
    const auto verbs = session.verbs(scheduler);
    report_cancelled(session, name, verbs->cancel(directory, *steps));
  });
}

}  // namespace dlflow
