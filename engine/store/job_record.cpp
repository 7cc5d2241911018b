#include "engine/store/job_record.h"

namespace dlflow {
namespace {

void take_details(JobRecord& record, const JobEvent& event) {
  if (!event.backend_id.empty()) record.backend_id = event.backend_id;
  if (!event.node.empty()) record.node = event.node;
  if (event.exit) record.exit = event.exit;
  if (!event.metrics.is_null()) record.metrics = event.metrics;
}

}  // namespace

void apply(JobRecord& record, const JobEvent& event) {
  if (event.attempt != 0 && event.attempt < record.attempt) return;
  if (!event.state) {
    if (!event.reason.empty()) record.reason = event.reason;
    take_details(record, event);
    return;
  }
  if (event.attempt > record.attempt) {
    record = JobRecord();
    record.attempt = event.attempt;
  }
  const JobState state = *event.state;
  if (state != record.state && !may_become(record.state, state)) return;
  record.state = state;
  record.reason = event.reason;
  take_details(record, event);
  record.fingerprint = event.fingerprint;
  record.outputs = event.outputs;
  record.reused_from = event.reused_from;
  if (state == JobState::Running && !record.started) record.started = event.at;
  record.ended = is_final(state) ? std::optional(event.at) : std::nullopt;
}

}  // namespace dlflow
