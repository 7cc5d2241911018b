#pragma once

#include <map>
#include <set>
#include <string>

#include "engine/run/chain/chain_run.h"
#include "engine/run/chain/question.h"

/// The ends and states of a chain's jobs, as far as the batch system knows more than their records.
namespace dlflow {

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

}  // namespace dlflow
