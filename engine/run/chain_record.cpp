#include "engine/run/chain_record.h"

#include <utility>

#include "engine/plan/run_directory.h"

namespace dlflow {

ChainRecord::ChainRecord(const Plan& plan, Jobs& jobs, Store& store, const Clock& clock)
    : plan_(plan),
      jobs_(jobs),
      store_(store),
      clock_(clock),
      file_(engine_events_file(plan.directory)) {}

void ChainRecord::move(uint32_t job, JobState state, const std::string& id,
                       const std::string& reason) {
  JobEvent event;
  event.job = plan_.jobs[job].name;
  event.attempt = jobs_[job].attempt;
  event.state = state;
  event.at = clock_.now();
  event.backend_id = id;
  event.reason = reason;
  if (state == JobState::Planned) event.failed_tries = jobs_[job].tries;
  write(job, std::move(event));
}

void ChainRecord::write(uint32_t job, JobEvent event) {
  if (!may_become(jobs_[job].state, *event.state)) return;
  file_.append(to_line(event));
  synced_ = false;
  note(job, std::move(event));
}

void ChainRecord::note(uint32_t job, JobEvent event) {
  if (event.state && may_become(jobs_[job].state, *event.state)) jobs_[job].state = *event.state;
  pending_.push_back(std::move(event));
}

void ChainRecord::sync() {
  if (!synced_) file_.sync();
  synced_ = true;
}

void ChainRecord::save() {
  if (pending_.empty()) return;
  store_.record(plan_.directory.string(), pending_);
  pending_.clear();
}

}  // namespace dlflow
