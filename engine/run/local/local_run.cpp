#include "engine/run/local/local_run.h"

#include <memory>
#include <utility>

#include "base/error.h"
#include "base/process.h"
#include "engine/plan/run_directory.h"
#include "engine/run/cancel_request.h"
#include "engine/run/detached.h"
#include "engine/run/local/engine.h"
#include "engine/run/new_sources.h"
#include "engine/run/restore.h"
#include "engine/run/reuses.h"

namespace dlflow {
namespace {

/// An engine with the jobs in the states that the run directory shows: running jobs are watched,
/// those about to start are handed over again, and vanished ones are Lost. Backend::recover
/// distinguishes the four cases of docs/contributor/architecture.md, "Exactly once on the local
/// back end".
std::unique_ptr<Engine> restored_engine(const std::filesystem::path& run_directory,
                                        const Services& services, const RunOptions& options) {
  Plan plan = load_run(run_directory);
  services.backend.check(plan);
  services.backend.begin(plan.directory);
  services.store.sync_run(plan.directory, &plan);
  const RunStatus status = services.store.status(plan.directory.string());
  take_reused(plan, status);
  std::vector<JobProgress> known = progress_of(plan, services.store, status);
  auto engine = std::make_unique<Engine>(std::move(plan), std::move(known), services, options);
  const Jobs& jobs = engine->record().jobs();
  for (uint32_t job = 0; job < jobs.size(); ++job) {
    const JobState state = jobs[job].state;
    if (!is_final(state) && state != JobState::Planned) engine->recover(job);
  }
  return engine;
}

}  // namespace

void create_run(Plan& plan, const Services& services, const std::filesystem::path& program) {
  services.backend.check(plan);
  create_run_directory(plan, plan.profile.runs, services.clock.now(), program,
                       [&](const std::string& run) { return services.store.has_run(run); });
  record_new_run(plan, services.store);
}

RunResult start_run(Plan plan, const Services& services, const RunOptions& options) {
  const RunLock lock(plan.directory);
  services.backend.begin(plan.directory);
  std::vector<JobProgress> known(plan.jobs.size());
  return Engine(std::move(plan), std::move(known), services, options).run();
}

RunResult resume_run(const std::filesystem::path& run_directory, const Services& services,
                     const RunOptions& options) {
  const RunLock lock(run_directory);
  const auto engine = restored_engine(run_directory, services, options);
  keep_used_results(engine->plan(), engine->record().jobs(), {}, services.store);
  plan_again(engine->plan(), engine->record().jobs(), {}, engine->record().planner());
  return engine->run();
}

RunResult resubmit_run(const std::filesystem::path& run_directory, PlanAgain again,
                       const Services& services, const RunOptions& options) {
  again.failed = true;
  const RunLock lock(run_directory);
  const auto engine = restored_engine(run_directory, services, options);
  if (again.new_sources) {
    again.anew = made_anew(engine->plan(), engine->record().jobs(), services.store);
  }
  keep_used_results(engine->plan(), engine->record().jobs(), again, services.store);
  prepare_again(engine->plan(), engine->record().jobs(), again, services.clock.now(),
                [&services](const Plan& plan) { services.backend.check(plan); });
  if (again.new_sources) {
    const Jobs& jobs = engine->record().jobs();
    const std::vector<Reuse> reuses = reuses_of_runs(services.store);
    take_new_sources(
        engine->plan(), jobs,
        {services.store, [&jobs](uint32_t job) { return is_under_way(jobs[job].state); },
         [&](const std::filesystem::path& folder) {
           return other_user_of(reuses, engine->plan().run, folder);
         }},
        engine->record().planner(), [&engine] { engine->record().sync(); });
  }
  plan_again(engine->plan(), engine->record().jobs(), again, engine->record().planner());
  return engine->run();
}

void detach_run(const std::filesystem::path& run_directory, const RunOptions& options) {
  const std::filesystem::path program = frozen_program(run_directory);
  Command engine{.argv = {program.string(), "run", "--resume", run_directory.string()},
                 .environment = current_environment(),
                 .standard_output = run_directory / "engine.log",
                 .standard_error = run_directory / "engine.log"};
  if (options.keep_going) engine.argv.emplace_back("--keep-going");
  try {
    start_detached(engine);
  } catch (const Error& error) {
    throw Error(error.code(), std::string(error.what()) + "; `dlflow run --resume " +
                                  run_name(run_directory) + "` runs it in this terminal");
  }
}

bool cancel_run(const std::filesystem::path& run_directory, const Services& services,
                std::chrono::milliseconds patience) {
  const auto lock = take_over(run_directory, patience);
  if (!lock) return false;
  // This call completes everything that an engine did, or was about to do when it was killed.
  const std::string run = services.store.sync_run(run_directory);
  if (services.store.status(run).state == RunState::Running) {
    restored_engine(run_directory, services, {})->stop();
  }
  withdraw_cancel_request(run_directory);
  return true;
}

}  // namespace dlflow
