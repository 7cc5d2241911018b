#include "engine/run/local/parent_results.h"

#include "engine/plan/run_directory.h"

namespace dlflow {
namespace {

Json object_or_empty(const Json& json) { return json.is_object() ? json : Json::object(); }

/// The result of a job of this run, by the event of its end.
KnownResult known_result(const Plan& plan, uint32_t job, const JobEvent& end) {
  return {.run = plan.run,
          .job = plan.jobs[job].name,
          .directory = job_directory(plan, job),
          .fingerprint = end.fingerprint,
          .outputs = object_or_empty(end.outputs),
          .metrics = object_or_empty(end.metrics)};
}

}  // namespace

void ParentResults::add(uint32_t job, const JobEvent& end) {
  results_[job] = known_result(plan_, job, end);
}

ParentResult ParentResults::of(uint32_t job) const {
  if (is_broken(jobs_[job].state)) {
    ParentResult failed = as_parent(plan_, job, {});
    failed.failed = true;
    return failed;
  }
  const auto ended = results_.find(job);
  if (ended != results_.end()) return as_parent(plan_, job, ended->second);
  const auto reused = plan_.reused.find(job);
  if (reused != plan_.reused.end()) return as_parent(plan_, job, reused->second);
  if (const auto published = published_result(job_directory(plan_, job))) {
    return as_parent(plan_, job, known_result(plan_, job, *published));
  }
  ParentResult none = as_parent(plan_, job, {});
  none.skipped = jobs_[job].state == JobState::Skipped;
  return none;
}

}  // namespace dlflow
