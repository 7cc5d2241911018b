#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/batch/batch_system.h"
#include "engine/plan/plan.h"
#include "engine/report/chain_text.h"
#include "engine/run/again.h"
#include "engine/store/store.h"

/// A run as a chain of dependent jobs in a batch system. It is submitted as a whole; then nothing
/// of ours runs until the batch system starts a job (P1), and whoever looks later finds out from
/// the record and from the batch system how far it is.
namespace dlflow {

struct ChainServices {
  Store& store;
  BatchSystem& batch;
  const Clock& clock;
  Backend* login_node = nullptr;  ///< where classes `local: true` run; null: on this machine
  std::function<void(const std::string& line)> tell = {};  ///< hears what runs here; may be empty
};

struct ChainResult {
  std::vector<SubmittedBatch> submitted;
  std::vector<std::string> adopted;         ///< jobs that an earlier call had submitted unknowingly
  std::vector<std::string> repointed;       ///< jobs that wait for another job now, "NAME ID"
  std::vector<std::string> too_early;       ///< jobs that run without what runs again now
  size_t kept = 0;                          ///< jobs that were done before
  size_t held_back = 0;                     ///< jobs that find no room below `limits.jobs` now
  std::vector<std::string> excluded_nodes;  ///< that what was submitted now does not run on
  std::vector<std::string> later_here;      ///< run on the login node, once jobs above have ended
  std::vector<std::string> failed_here;     ///< on the login node, now or before
  bool interrupted = false;  ///< while jobs ran on the login node: nothing is submitted
};

/// Checks the plan against the limits of profile and cluster, freezes it (see create_run_directory)
/// and adds it to the store. Nothing is submitted yet.
void create_chain(Plan& plan, const ChainServices& services,
                  const std::filesystem::path& program = "/proc/self/exe");

/// Submits every runnable job that the batch system does not have yet, each attempt once (P2):
/// what an earlier call left in doubt is looked up by name, and adopted or submitted; jobs that
/// wait for one that is submitted anew are pointed to the new one (P4). Holds RunLock. Throws
/// Error: Unavailable if the batch system does not answer or it stays unclear whether it has a job,
/// InvalidInput if it refuses one; both say how many jobs it has and how to go on. NotFound and
/// InvalidInput for names, as resubmit_run. Of more jobs than the user may have at a time (those
/// of other runs counted, too) the first in the plan are submitted; a later call goes on.
ChainResult submit_chain(const std::filesystem::path& run_directory, const PlanAgain& again,
                         const ChainServices& services);

/// For a job that has ended well, on its node: lays out the list that it left, and submits what
/// that makes, and whatever else nobody has yet. What was cancelled or lost stays so, and a
/// submission that is to stop does. Throws as submit_chain.
ChainResult submit_listed(const std::filesystem::path& run_directory,
                          const ChainServices& services);

struct CancelResult {
  size_t cancelled = 0;
  size_t saving = 0;  ///< were asked to save a checkpoint and to end
};

/// Ends a run, or some of its steps or jobs: what waits is taken from the queue, what runs is asked
/// to save and to end; a second call ends that at once. A submission that is under way stops first.
/// Only what the batch system has done is recorded; if it refuses, what waits does not begin its
/// program all the same, and Error{InvalidInput} says so. Holds RunLock.
CancelResult cancel_chain(const std::filesystem::path& run_directory,
                          const std::vector<std::string>& names, const ChainServices& services);

/// The same for a run whose directory is gone, with all its records: takes what carries its name
/// from the batch system, at once. Returns how many jobs that were. Throws Error{Unavailable} if
/// that does not answer, InvalidInput if it refuses.
size_t cancel_lost_chain(const std::string& run, BatchSystem& batch);

/// How many jobs the batch system has of the run in `run_directory`, whatever is on record of them.
/// Throws Error: Unavailable if that does not answer, InvalidInput if the run is on another
/// cluster.
size_t jobs_in_queue(const std::filesystem::path& run_directory, BatchSystem& batch);

/// The batch system's view of a run's jobs now; by job's name.
struct ChainView {
  std::map<std::string, BatchJob> at_work;     ///< what waits or runs
  std::map<std::string, BatchJob> accounting;  ///< what accounting was asked about and knows
  std::set<std::string> shared;                ///< of these, what shares its task with others
  std::string problem;                         ///< it could not be asked, and why; else empty
  std::string unaccounted;  ///< accounting could not be asked, and why; else empty
};

enum class AskAbout {
  Open,    ///< what waits or runs, as far as its record goes
  AllJobs  ///< what has ended, too: what it used
};

/// Records what has become of the runs' jobs: their own records first, then what only the batch
/// system knows (time limits, failed nodes, scancel), then who is blocked by that. One look at the
/// queue, and at most one at the accounting, however many runs. Another dlflow at work on a run is
/// not disturbed: then nothing is recorded of it. The views are in the order of `run_directories`.
std::vector<ChainView> refresh_chains(std::span<const std::filesystem::path> run_directories,
                                      const ChainServices& services,
                                      AskAbout what = AskAbout::Open);

/// The submissions that starting `plan` would make, in their order. Checks the plan against the
/// limits of profile and cluster as create_chain() does, and throws the same; nothing is written.
/// The run has no folder yet: in the scripts RUN stands for its name, and JOB1, JOB2 and so on for
/// the numbers that the batch system will give.
std::vector<PreviewedBatch> preview_chain(Plan plan, const ChainServices& services);

}  // namespace dlflow
