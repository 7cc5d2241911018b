#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/plan/plan.h"
#include "engine/report/chain_text.h"
#include "engine/report/observer.h"
#include "engine/run/again.h"
#include "engine/run/chain/chain.h"
#include "engine/run/local/local_run.h"
#include "engine/store/store.h"

/// The verbs of the command line, for runs on this machine and for chains in a batch system.
namespace dlflow {

/// The services that verbs use; they must outlive the verbs.
struct VerbServices {
  Store& store;
  const Clock& clock;
  /// Makes the observer of a run that this process executes; called when there is one.
  std::function<std::unique_ptr<Observer>()> watch;
  /// Gets a line about each job on the login node before a chain is submitted; may be empty.
  std::function<void(const std::string& line)> tell = {};
};

/// The result of a verb.
struct Outcome {
  RunState state = RunState::Running;  ///< of a chain: as known now
  bool interrupted = false;            ///< by SIGINT or SIGTERM
  std::optional<ChainResult> chain;    ///< the batch system has the jobs; nothing runs here
};

/// The result of a request to cancel.
struct Cancelled {
  bool ended = true;                  ///< false: running jobs are still saving
  std::optional<CancelResult> chain;  ///< of a chain
};

/// The level of detail about a run.
enum class Detail {
  State,
  Usage,  ///< the resource usage of its jobs; a cluster's accounting is asked about all of them
};

/// The verbs on runs of one scheduler. Verbs that change a run hold its RunLock; they throw like
/// the functions of local_run.h and chain.h.
class Verbs {
 public:
  virtual ~Verbs() = default;

  /// Checks that the plan can run, freezes it in a new folder below its profile's folder of runs,
  /// and adds it to the store. Nothing runs yet.
  virtual void create(Plan& plan) = 0;

  /// The submissions to a batch system that start() would make; none for a run on this machine.
  /// Checks that the plan can run as create() does, and throws the same; nothing is written.
  virtual std::vector<PreviewedBatch> preview(const Plan& plan) = 0;

  /// A line for people about a run that was created; empty if its observer reports everything.
  virtual std::string announcement(const Plan& plan) const = 0;

  /// Runs a created plan to its end, or submits it.
  virtual Outcome start(Plan plan, const RunOptions& options) = 0;

  /// Starts or continues a run without waiting for it.
  virtual Outcome detach(const Plan& plan, const RunOptions& options) = 0;

  /// Continues a run that was interrupted or killed. Failed jobs stay failed.
  virtual Outcome resume(const std::filesystem::path& run_directory, const RunOptions& options) = 0;

  /// The same, and failed jobs that `again` names run again.
  virtual Outcome resubmit(const std::filesystem::path& run_directory, const PlanAgain& again,
                           const RunOptions& options) = 0;

  /// Ends a run, or some of its steps or jobs.
  virtual Cancelled cancel(const std::filesystem::path& run_directory,
                           const std::vector<std::string>& names) = 0;

  /// The status of runs, brought up to date first; a batch system is asked once for all of them.
  virtual std::vector<RunStatus> refresh(const std::vector<std::filesystem::path>& run_directories,
                                         Detail detail) = 0;

  /// Throws Error{InvalidInput} if jobs of the run may still begin, so that it cannot be removed.
  virtual void check_idle(const std::filesystem::path& run_directory) = 0;

  /// The pause before looking at a run again.
  virtual std::chrono::seconds look_interval() const = 0;
};

/// The verbs on runs of a profile with this `scheduler:`.
std::unique_ptr<Verbs> verbs_of(const std::string& scheduler, const VerbServices& services);

/// Cancels the jobs that batch systems here have of a run whose folder is gone. Returns their
/// number.
size_t cancel_lost_run(const std::string& run, Store& store, const Clock& clock);

}  // namespace dlflow
