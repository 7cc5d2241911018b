#include "engine/run/handed_over.h"

#include "base/fault.h"
#include "engine/plan/run_directory.h"

namespace dlflow {

Submission HandedOver::submission(uint32_t job) const {
  const JobProgress& progress = record.jobs()[job];
  const auto read = events_read.find(job);
  return {.job = job,
          .name = plan.jobs[job].name,
          .attempt = progress.attempt,
          .pass = progress.pass,
          .job_directory = job_directory(plan, job),
          .resources = *plan.jobs[job].resources,
          .events_read = read == events_read.end() ? 0 : read->second};
}

bool HandedOver::recover(uint32_t job) {
  events_read[job] = record.follow(job);
  if (is_final(record.jobs()[job].state)) return false;
  switch (backend.recover(submission(job))) {
    case Recovery::NotStarted:
      return true;
    case Recovery::Watched:
      jobs.insert(job);
      return false;
    case Recovery::Vanished:
      record.decide(job, JobState::Lost, "its supervisor was killed");
  }
  return false;
}

void HandedOver::intend(uint32_t job) {
  const JobState state = record.jobs()[job].state;
  if (state == JobState::Planned) {
    record.submit_anew(job);
    events_read.erase(job);  // these were of the previous attempt
  }
  if (state == JobState::Submitting) record.decide(job, JobState::Submitting);
}

void HandedOver::start(uint32_t job) {
  make_attempt(plan, job, record.jobs()[job].attempt);
  crash_point("attempt");
  backend.submit(submission(job));
  crash_point("spawn");
  events_read.erase(job);
  jobs.insert(job);
}

bool HandedOver::take(const Update& update) {
  const bool moved = update.recorded ? record.take(update.job, update.event)
                                     : record.observe(update.job, update.event);
  if (!moved || record.jobs()[update.job].state == JobState::Running) return false;
  jobs.erase(update.job);
  return true;
}

void HandedOver::stop(Stop how) const {
  for (const uint32_t job : jobs) backend.stop(job, how);
}

}  // namespace dlflow
