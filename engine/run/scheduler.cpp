#include "engine/run/scheduler.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/process.h"
#include "engine/plan/run_directory.h"
#include "engine/run/engine.h"
#include "engine/run/journal.h"
#include "engine/run/restore.h"

namespace dlflow {
namespace {

Move mover(Engine& engine) {
  return [&engine](uint32_t job, JobState state, const std::string& reason) {
    engine.move(job, state, reason);
  };
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
  return Engine(std::move(plan), services, options).run();
}

RunResult resume_run(const std::filesystem::path& run_directory, const Services& services,
                     const RunOptions& options) {
  const RunLock lock(run_directory);
  const auto engine = restored_engine(run_directory, services, options);
  plan_again(engine->plan(), engine->jobs(), {}, mover(*engine));
  return engine->run();
}

RunResult resubmit_run(const std::filesystem::path& run_directory, PlanAgain again,
                       const Services& services, const RunOptions& options) {
  again.failed = true;
  const RunLock lock(run_directory);
  const auto engine = restored_engine(run_directory, services, options);
  prepare_again(engine->plan(), engine->jobs(), again, services.clock.now(),
                [&services](const Plan& plan) { services.backend.check(plan); });
  plan_again(engine->plan(), engine->jobs(), again, mover(*engine));
  return engine->run();
}

namespace {

/// In a child of this process: leaves its session and starts the engine there.
[[noreturn]] void start_in_new_session(const Command& engine) {
  ::setsid();
  try {
    start(engine);
  } catch (const std::exception&) {
    ::_exit(1);
  }
  ::_exit(0);
}

}  // namespace

void detach_run(const std::filesystem::path& run_directory, const RunOptions& options) {
  const std::filesystem::path program = frozen_program(run_directory);
  Command engine;
  engine.argv = {program.string(), "run", "--resume", run_directory.string()};
  if (options.keep_going) engine.argv.emplace_back("--keep-going");
  engine.environment = current_environment();
  engine.standard_output = run_directory / "engine.log";
  engine.standard_error = engine.standard_output;
  const pid_t child = ::fork();
  if (child < 0) throw_errno("cannot start " + program.string(), errno);
  if (child == 0) start_in_new_session(engine);
  if (wait_for(child).code != 0) {
    throw Error(Errc::Unavailable, "cannot start " + program.string() + "; `dlflow run --resume " +
                                       run_name(run_directory) + "` runs it in this terminal");
  }
}

}  // namespace dlflow
