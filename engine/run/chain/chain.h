#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/batch/batch_system.h"
#include "engine/batch/batches.h"
#include "engine/plan/plan.h"
#include "engine/report/chain_text.h"
#include "engine/run/again.h"
#include "engine/store/store.h"

/// A run as a chain of dependent jobs in a batch system. It is submitted as a whole; then no
/// process of dlflow runs until the batch system starts a job (P1). Later calls read the progress
/// from the record and from the batch system.
namespace dlflow {

struct ChainServices {
  Store& store;
  BatchSystem& batch;
  const Clock& clock;
  Backend* login_node = nullptr;  ///< runs the classes with `local: true`; null: this machine
  std::function<void(const std::string& line)> tell = {};  ///< gets a line about each job that runs
                                                           ///< here; may be empty
};

struct ChainResult {
  std::vector<SubmittedBatch> submitted;
  std::vector<std::string> adopted;         ///< jobs that an earlier call had submitted without
                                            ///< learning of it
  std::vector<std::string> repointed;       ///< jobs that wait for another job now, "NAME ID"
  std::vector<std::string> too_early;       ///< jobs that run although a parent runs again now
  size_t kept = 0;                          ///< jobs that were done before
  size_t held_back = 0;                     ///< jobs that find no room below `limits.jobs` now
  std::vector<std::string> excluded_nodes;  ///< nodes that the jobs submitted now must not run on
  std::vector<std::string> later_here;      ///< run on the login node, once jobs above have ended
  std::vector<std::string> failed_here;     ///< on the login node, now or before
  bool interrupted = false;  ///< while jobs ran on the login node: nothing is submitted
};

/// Checks the plan against the limits of profile and cluster, freezes it (see create_run_directory)
/// and adds it to the store. Nothing is submitted yet. Returns the checked submissions.
BatchPlan create_chain(Plan& plan, const ChainServices& services,
                       const std::filesystem::path& program = "/proc/self/exe");

/// Submits every runnable job that the batch system does not have yet, each attempt once (P2): jobs
/// that an earlier call left in doubt are looked up by name, and adopted or submitted; jobs that
/// wait for one that is submitted anew are pointed to the new one (P4). Holds RunLock. Throws
/// Error: Unavailable if the batch system does not answer or it stays unclear whether it has a job,
/// InvalidInput if it refuses one; both report how many jobs it has and how to continue. NotFound
/// and InvalidInput for names, as resubmit_run. If there are more jobs than the user may have at a
/// time (those of other runs included), the first in the plan are submitted; a later call
/// continues. \param planned  of a run that create_chain() has just made
ChainResult submit_chain(const std::filesystem::path& run_directory, const PlanAgain& again,
                         const ChainServices& services, BatchPlan planned = {});

/// For a job that has succeeded, on its node: lays out the list that it left, and submits the jobs
/// that the list makes, and any others that were never submitted. Cancelled and lost jobs stay so,
/// and a cancelled submission stops. Throws like submit_chain.
ChainResult submit_listed(const std::filesystem::path& run_directory,
                          const ChainServices& services);

struct CancelResult {
  size_t cancelled = 0;
  size_t saving = 0;  ///< were asked to save a checkpoint and to end
};

/// Ends a run, or some of its steps or jobs: waiting jobs are taken from the queue, running ones
/// are asked to save and to end; a second call ends these at once. A submission at work stops
/// first. Only what the batch system has done is recorded. If it refuses, waiting jobs still do not
/// begin their programs, and Error{InvalidInput} reports it. Holds RunLock.
CancelResult cancel_chain(const std::filesystem::path& run_directory,
                          const std::vector<std::string>& names, const ChainServices& services);

/// The same for a run whose directory is gone, with all its records: cancels the jobs with its name
/// at once. Returns their number. Throws Error: Unavailable if the batch system does not answer,
/// InvalidInput if it refuses.
size_t cancel_lost_chain(const std::string& run, BatchSystem& batch);

/// The number of jobs that the batch system has of the run in `run_directory`, whatever their
/// records. Throws Error: Unavailable if it does not answer, InvalidInput if the run is on another
/// cluster.
size_t jobs_in_queue(const std::filesystem::path& run_directory, BatchSystem& batch);

/// The batch system's view of a run's jobs now; by job's name.
struct ChainView {
  std::map<JobName, BatchJob> at_work;     ///< waiting and running jobs
  std::map<JobName, BatchJob> accounting;  ///< the accounting's answer
  std::set<JobName> shared;                ///< those that share their task with others
  std::string problem;                     ///< why it could not be asked; else empty
  std::string unaccounted;                 ///< why accounting could not be asked; else empty
};

enum class AskAbout {
  Open,    ///< jobs that wait or run by their records
  AllJobs  ///< also ended ones, for their resource usage
};

/// Records the progress of the runs' jobs: their own records first, then what only the batch system
/// knows (time limits, failed nodes, scancel), then the jobs that this blocks. One look at the
/// queue, and at most one at the accounting, for all runs together. If another dlflow works on a
/// run, nothing is recorded for it. The views are in the order of `run_directories`.
std::vector<ChainView> refresh_chains(std::span<const std::filesystem::path> run_directories,
                                      const ChainServices& services,
                                      AskAbout what = AskAbout::Open);

/// The submissions that starting `plan` would make, in their order. Checks the plan against the
/// limits of profile and cluster as create_chain() does, and throws the same; nothing is written.
/// The run has no folder yet: in the scripts RUN stands for its name, and JOB1, JOB2 and so on for
/// the numbers that the batch system will give.
std::vector<PreviewedBatch> preview_chain(Plan plan, const ChainServices& services);

}  // namespace dlflow
