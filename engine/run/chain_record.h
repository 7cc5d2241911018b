#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "engine/plan/plan.h"
#include "engine/run/jobs.h"
#include "engine/store/store.h"

namespace dlflow {

/// RUN/events.jsonl and the store, as one writer of a chain uses them. For whoever holds RunLock.
class ChainRecord {
 public:
  ChainRecord(const Plan& plan, Jobs& jobs, Store& store, const Clock& clock);

  /// Moves a job and writes that down. On disk after sync().
  void move(uint32_t job, JobState state, const std::string& id = "",
            const std::string& reason = "");

  /// The same for an event that is complete. One that is no legal change is passed over.
  void write(uint32_t job, JobEvent event);

  /// An event that the job itself has recorded, which the store may not know yet.
  void note(uint32_t job, JobEvent event);

  /// Everything so far is on disk: what follows may rely on it.
  void sync();

  /// Tells the store.
  void save();

 private:
  const Plan& plan_;
  Jobs& jobs_;
  Store& store_;
  const Clock& clock_;
  AppendFile file_;
  std::vector<JobEvent> pending_;
  bool synced_ = true;
};

}  // namespace dlflow
