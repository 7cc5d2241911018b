#include "engine/report/job_words.h"

#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "engine/report/describe.h"

namespace dlflow {

bool waits(const JobRow& job) {
  return job.state == JobState::Planned || job.state == JobState::Submitting ||
         job.state == JobState::Queued;
}

bool went_wrong(const JobRow& job) {
  return is_final(job.state) && !satisfies_dependents(job.state) && job.state != JobState::Skipped;
}

bool never_began(const JobRow& job) { return job.state == JobState::Cancelled && !job.started; }

const JobRow* first_wrong(const RunStatus& status) {
  for (const bool is_cancelled : {false, true}) {
    for (const JobRow& job : status.jobs) {
      if (!went_wrong(job) || job.state == JobState::Blocked) continue;
      if ((job.state == JobState::Cancelled) == is_cancelled) return &job;
    }
  }
  return nullptr;
}

namespace {

/// The unfinished steps that `job` needs.
std::vector<std::string> open_parents(const JobRow& job, const RunView& view) {
  std::vector<std::string> open;
  const auto needs = view.needs.find(job.step);
  if (needs == view.needs.end()) return open;
  for (const JobRow& parent : view.status.jobs) {
    const bool needed = std::ranges::find(needs->second, parent.step) != needs->second.end();
    const bool listed = !open.empty() && open.back() == parent.step;
    if (needed && !listed && !satisfies_dependents(parent.state)) open.push_back(parent.step);
  }
  return open;
}

}  // namespace

std::vector<std::string> details(const JobRow& job, const RunView& view, const Style& style,
                                 const JobRow* above) {
  if (job.state == JobState::Running) {
    const auto progress = view.progress.find(job.job);
    if (progress != view.progress.end()) return describe_progress(progress->second, style);
    return {};
  }
  if (!waits(job)) {
    constexpr size_t kShort = 20;  // it may be repeated
    const bool is_repeated = above != nullptr && went_wrong(job) && job.step == above->step &&
                             job.reason == above->reason && job.reason.size() > kShort;
    if (is_repeated) return {"the same"};
    if (!job.reason.empty()) return {job.reason};
    const std::string metrics = describe_metrics(job.metrics);
    return metrics.empty() ? std::vector<std::string>{} : std::vector<std::string>{metrics};
  }
  if (job.state == JobState::Planned && view.status.ended) {
    return {job.reason.empty() ? "not started: the run had ended" : job.reason};
  }
  const std::string open = join(open_parents(job, view), ", ");
  if (job.state == JobState::Submitting && job.reason.empty() && open.empty()) {
    const bool nobody_does = view.status.state == RunState::Interrupted;
    return {nobody_does ? "not known whether it was submitted" : "is being submitted"};
  }
  if (job.reason.empty()) return {open.empty() ? "waits for a free place" : "waits for " + open};
  const bool is_said = open.empty() || job.reason.find("waits for") != job.reason.npos;
  return {job.reason + (is_said ? "" : "; waits for " + open)};
}

std::vector<std::span<const JobRow>> by_step(const std::vector<JobRow>& jobs) {
  std::vector<std::span<const JobRow>> steps;
  for (size_t begin = 0; begin < jobs.size();) {
    size_t end = begin + 1;
    while (end < jobs.size() && jobs[end].step == jobs[begin].step) ++end;
    steps.emplace_back(jobs.data() + begin, end - begin);
    begin = end;
  }
  return steps;
}

StepCounts::StepCounts(std::span<const JobRow> jobs) : all(jobs.size()) {
  for (const JobRow& job : jobs) {
    if (job.is_open) --all;
    done += satisfies_dependents(job.state) || job.state == JobState::Skipped;
    running += job.state == JobState::Running;
    blocked += job.state == JobState::Blocked;
    cancelled += job.state == JobState::Cancelled;
    wrong += went_wrong(job) && job.state != JobState::Blocked && job.state != JobState::Cancelled;
  }
}

JobState StepCounts::look() const {
  if (wrong > 0) return JobState::Failed;
  if (running > 0) return JobState::Running;
  if (cancelled > 0) return JobState::Cancelled;
  if (blocked > 0) return JobState::Blocked;
  return done == all ? JobState::Succeeded : JobState::Planned;
}

std::string StepCounts::text() const {
  std::string text = format_count(done) + "/" + format_count(all) + " done";
  if (running > 0) text += ", " + format_count(running) + " running";
  if (wrong > 0) text += ", " + format_count(wrong) + " failed";
  if (cancelled > 0) text += ", " + format_count(cancelled) + " cancelled";
  if (blocked > 0) text += ", " + format_count(blocked) + " blocked";
  return text;
}

}  // namespace dlflow
