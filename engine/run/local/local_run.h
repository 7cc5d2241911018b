#pragma once

#include <chrono>
#include <filesystem>

#include "base/clock.h"
#include "engine/backend/backend.h"
#include "engine/plan/plan.h"
#include "engine/report/observer.h"
#include "engine/run/again.h"
#include "engine/store/store.h"

/// Runs with jobs on this machine: Plan -> Backend -> Store, until nothing is left to do.
namespace dlflow {

/// The surroundings of an engine; all of it outlives the call.
struct Services {
  Store& store;
  Backend& backend;
  Observer& observer;
  const Clock& clock;
};

struct RunOptions {
  /// After a failure, jobs that do not depend on it are still started. Otherwise running jobs come
  /// to their end and nothing new is started.
  bool keep_going = false;
};

struct RunResult {
  RunState state = RunState::Running;
  bool interrupted = false;  ///< by SIGINT or SIGTERM: exit status 130
};

/// The functions below hold RunLock while they work, and throw Error{Unavailable} naming the other
/// process if one holds it. They handle SIGINT and SIGTERM: the first asks running jobs for a
/// checkpoint and starts nothing more, the second kills; the run is then Cancelled. They also throw
/// what create_run_directory, load_run, Store and Backend throw; jobs that run at that moment
/// continue, and resume_run finds them.

/// Checks that every job can run on the back end, freezes the plan in a new folder below
/// `plan.profile.runs` (see create_run_directory, which sets plan.run and plan.directory), and adds
/// it to the store. Nothing runs yet: resume_run or detach_run starts it.
void create_run(Plan& plan, const Services& services,
                const std::filesystem::path& program = "/proc/self/exe");

/// Runs `plan`, to which create_run gave a folder, to its end.
RunResult start_run(Plan plan, const Services& services, const RunOptions& options = {});

/// Continues a run that was interrupted or killed: adopts running jobs, starts the remaining ones,
/// and gives cancelled and lost ones another attempt. Failed jobs stay failed.
RunResult resume_run(const std::filesystem::path& run_directory, const Services& services,
                     const RunOptions& options = {});

/// Like resume_run, but failed and timed-out jobs run again, too, and so do their dependents: all
/// of them, or the steps and jobs that `again` names. Throws Error: NotFound for a name that is not
/// in the run (with a suggestion), InvalidInput for a name without a failed job; also throws like
/// prepare_again.
RunResult resubmit_run(const std::filesystem::path& run_directory, PlanAgain again,
                       const Services& services, const RunOptions& options = {});

/// Starts `RUN/bin/dlflow run --resume NAME` in a session of its own, with its output in
/// RUN/engine.log, and returns: the run continues without a terminal. (A fresh process instead of a
/// fork, because an open database must not be carried across fork.)
void detach_run(const std::filesystem::path& run_directory, const RunOptions& options = {});

/// Ends a run from any shell: running jobs are asked to save a checkpoint and to end, nothing new
/// starts. An engine at work on the run gets the request through the file RUN/cancel, and a second
/// call makes it kill; without one, this process becomes the run's engine until all have ended, and
/// Ctrl-C kills. A run that has ended stays as it is.
///
/// \return whether all jobs have ended; false if another engine still waits for some after
/// `patience`. Throws like resume_run.
bool cancel_run(const std::filesystem::path& run_directory, const Services& services,
                std::chrono::milliseconds patience = std::chrono::seconds(30));

}  // namespace dlflow
