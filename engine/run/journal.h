#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "engine/plan/job.h"
#include "engine/plan/plan.h"
#include "engine/report/observer.h"
#include "engine/store/store.h"

namespace dlflow {

/// Adds a run that has a folder now, and nothing else yet, to the store. If that fails the folder
/// is removed: else `status` and `--resume` would not know it.
void record_new_run(const Plan& plan, Store& store);

/// Takes every event of a run to all who keep or show it: RUN/events.jsonl, the store, the
/// observer. The file is written at once; the store in groups, since it is an index that can be
/// made again.
class Journal {
 public:
  Journal(const Plan& plan, Store& store, Observer& observer);

  /// An event that the engine decided or observed.
  void write(const JobEvent& event);

  /// An event that a supervisor has recorded in its attempt's own file.
  void note(const JobEvent& event);

  /// The observer hears of events from now on; those before are part of what it is told at first.
  void show() { shown_ = true; }

  /// Writes what is pending to the store. A database that is busy for too long is tried again with
  /// the next call.
  void save();

  bool has_pending() const { return !pending_.empty(); }

  /// As save(), but a busy database is an error: there is no next call.
  void finish();

 private:
  void publish(const JobEvent& event);
  void record_pending();

  std::string run_;  // its folder
  AppendFile file_;
  Store& store_;
  Observer& observer_;
  std::vector<JobEvent> pending_;
  bool shown_ = false;
};

}  // namespace dlflow
