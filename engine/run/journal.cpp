#include "engine/run/journal.h"

#include <filesystem>

#include "base/error.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/remove_tree.h"
#include "engine/plan/run_directory.h"

namespace dlflow {

void record_new_run(const Plan& plan, Store& store) {
  try {
    store.create_run(plan);
  } catch (...) {
    std::error_code ignored;
    remove_tree(plan.directory, ignored);
    throw;
  }
}

Journal::Journal(const Plan& plan, Store& store, Observer& observer)
    : run_(plan.directory.string()),
      file_(engine_events_file(plan.directory)),
      store_(store),
      observer_(observer) {}

void Journal::write(const JobEvent& event) {
  file_.append(to_line(event));
  publish(event);
}

void Journal::note(const JobEvent& event) { publish(event); }

void Journal::publish(const JobEvent& event) {
  pending_.push_back(event);
  if (shown_) observer_.event(event);
}

void Journal::record_pending() {
  if (pending_.empty()) return;
  store_.record(run_, pending_);
  pending_.clear();
  crash_point("record");
}

void Journal::save() {
  try {
    record_pending();
  } catch (const Error& error) {
    if (!error.retryable()) throw;
    log(error.what());
  }
}

void Journal::finish() { record_pending(); }

}  // namespace dlflow
