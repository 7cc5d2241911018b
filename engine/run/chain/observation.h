#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/batch/batch_system.h"
#include "engine/batch/observe.h"
#include "engine/run/chain/chain_run.h"

/// The ends and states of a chain's jobs, as far as the batch system knows more than their records.
namespace dlflow {

/// The jobs that a batch system is asked about.
struct ChainQuestion {
  std::vector<OpenJob> open;
  std::vector<std::string> ended;  ///< ids of others, for the accounting
  Time since{};                    ///< before the first was submitted

  bool is_empty() const { return open.empty() && ended.empty(); }

  /// Also what `other` asks.
  void add(ChainQuestion other);
};

/// The batch system's answer, about these jobs and others.
struct ChainAnswer {
  std::vector<BatchJob> queue;
  Accounting accounting;
  std::set<std::string> gone;  ///< ids of jobs that have vanished
  std::string problem;         ///< nothing is known, and why; else empty
};

/// The treatment of a job that accounting alone takes for running: how it ended is in doubt.
enum class Doubt { Leave, GiveUp };

/// One look at the queue, and at most one at the accounting; none of them if there is nothing to
/// ask. Then one question for each job or array that neither knows: it is lost only if the
/// controller itself says so. Throws as BatchSystem.
ChainAnswer ask(BatchSystem& batch, const ChainQuestion& question, Doubt doubt);

/// The jobs that wait or run, by name.
using JobsAtWork = std::map<std::string, BatchJob>;

/// The ids of the run's jobs that wait in the queue at this moment. Throws as BatchSystem.
std::set<std::string> pending_ids(const ChainRun& run);

ChainQuestion question_about(const ChainRun& run, AskAbout what);

/// Records the ends that only the batch system knows, and what it has after all of what was given
/// up as lost.
JobsAtWork take_answer(ChainRun& run, const ChainAnswer& answer);

/// Asks about what is open, and takes the answer. Throws as BatchSystem.
JobsAtWork look_at_open_jobs(ChainRun& run, Doubt doubt);

/// Looks up the batches of jobs of which it is not known whether the batch system has them, because
/// a kill or a lost answer came between their intent and their id. What it has of them is Queued
/// then, under its id; what it does not have stays Submitting. Returns the names of those found.
/// Throws as BatchSystem::find_by_name.
std::vector<std::string> adopt_doubtful(ChainRun& run);

}  // namespace dlflow
