#pragma once

#include <set>
#include <string>
#include <vector>

#include "engine/batch/batch_system.h"
#include "engine/batch/observe.h"

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

}  // namespace dlflow
