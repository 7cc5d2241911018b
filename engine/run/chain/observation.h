#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/batch/batch_system.h"
#include "engine/batch/observe.h"
#include "engine/run/chain/chain_run.h"

/// Ends and states of a chain's jobs that only the batch system knows.
namespace dlflow {

/// The jobs that a batch system is asked about.
struct ChainQuestion {
  std::vector<OpenJob> open;
  std::vector<std::string> ended;  ///< ids of others, for the accounting
  Time since{};                    ///< before the first was submitted

  bool is_empty() const { return open.empty() && ended.empty(); }

  /// Adds the jobs that `other` asks about.
  void add(ChainQuestion other);
};

/// The batch system's answer, about these jobs and others.
struct ChainAnswer {
  std::vector<BatchJob> queue;
  Accounting accounting;
  std::set<std::string> gone;  ///< ids of jobs that have vanished
  std::string problem;         ///< why nothing is known; else empty
};

/// The action for a job that only the accounting shows as running; it may have ended.
enum class Doubt { Leave, GiveUp };

/// Looks once at the queue and at most once at the accounting; at neither if the question is empty.
/// Then asks one question for each job or array that neither knows: a job is lost only if the
/// controller itself denies it. Throws like BatchSystem.
ChainAnswer ask(BatchSystem& batch, const ChainQuestion& question, Doubt doubt);

/// The jobs that wait or run, by name.
using JobsAtWork = std::map<JobName, BatchJob>;

/// The ids of the run's jobs that wait in the queue at this moment. Throws like BatchSystem.
std::set<std::string> pending_ids(const ChainRun& run);

ChainQuestion question_about(const ChainRun& run, AskAbout what);

/// Records the ends that only the batch system knows, and the jobs given up as lost that it has
/// after all.
JobsAtWork take_answer(ChainRun& run, const ChainAnswer& answer);

/// Asks about open jobs, and takes the answer. Throws like BatchSystem.
JobsAtWork look_at_open_jobs(ChainRun& run, Doubt doubt);

/// Looks up jobs that the batch system may have because a kill or a lost answer came between their
/// intent and their id. Jobs that are found become Queued, with their id; the others stay
/// Submitting. Returns the names of the jobs found. Throws like BatchSystem::find_by_name.
std::vector<std::string> adopt_doubtful(ChainRun& run);

}  // namespace dlflow
