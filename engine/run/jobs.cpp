#include "engine/run/jobs.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

namespace dlflow {
namespace {

/// Whether `step` refers to outputs or metrics of `parent`, rather than only waiting for it.
bool refers_to(const Step& step, const std::string& parent) {
  const auto refers = [&parent](const Template& value) {
    const auto& references = value.references();
    return std::any_of(references.begin(), references.end(), [&parent](const Reference& r) {
      return r.path.size() > 1 && r.path[0] == "steps" && r.path[1] == parent;
    });
  };
  return refers(step.run) || refers(step.with) || refers(step.environment) ||
         refers(step.condition);
}

constexpr auto kBroken = {JobState::Failed, JobState::TimedOut, JobState::Cancelled, JobState::Lost,
                          JobState::Blocked};

bool is_finished(JobState state) {
  return satisfies_dependents(state) || state == JobState::Skipped;
}

}  // namespace

JobEvent ending_of(const JobProgress& progress) {
  JobEvent ended;
  ended.state = progress.state;
  ended.exit = progress.exit;
  ended.preempted = progress.preempted;
  return ended;
}

bool is_broken(JobState state) {
  return std::find(kBroken.begin(), kBroken.end(), state) != kBroken.end();
}

Jobs::Jobs(const Plan& plan, std::vector<JobProgress> known)
    : plan_(plan), jobs_(std::move(known)), unfinished_parents_(jobs_.size(), 0) {
  const auto& steps = plan.workflow.steps;
  std::map<std::string_view, uint32_t> number_of;
  for (uint32_t step = 0; step < steps.size(); ++step) number_of[steps[step].name] = step;
  for (uint32_t child = 0; child < steps.size(); ++child) {
    for (const std::string& need : steps[child].needs) {
      if (refers_to(steps[child], need)) uses_.emplace(child, number_of.at(need));
    }
  }
  for (const JobProgress& job : jobs_) ++num_in_[size_t(job.state)];
  count_parents();
}

size_t Jobs::count(std::initializer_list<JobState> states) const {
  size_t sum = 0;
  for (const JobState state : states) sum += num_in_[size_t(state)];
  return sum;
}

/// By sums over all jobs before each: a range of parents costs no more than one.
void Jobs::count_parents() {
  std::vector<uint32_t> unfinished_before = {0};
  for (const JobProgress& job : jobs_) {
    unfinished_before.push_back(unfinished_before.back() + (is_finished(job.state) ? 0 : 1));
  }
  for (uint32_t job = 0; job < size(); ++job) {
    for (const JobRange& range : plan_.graph.parents(job)) {
      unfinished_parents_[job] +=
          unfinished_before[range.first + range.count] - unfinished_before[range.first];
    }
  }
}

bool Jobs::uses_outputs(uint32_t child, uint32_t parent) const {
  return uses_.contains({plan_.jobs[child].step, plan_.jobs[parent].step});
}

bool Jobs::accepts(uint32_t job, const JobEvent& event) const {
  if (!event.state) return false;
  if (event.attempt != 0 && event.attempt < jobs_[job].attempt) return false;
  return may_become(jobs_[job].state, *event.state);
}

bool Jobs::update(uint32_t job, const JobEvent& event) {
  if (!accepts(job, event)) return false;
  JobProgress& progress = jobs_[job];
  const JobState before = std::exchange(progress.state, *event.state);
  --num_in_[size_t(before)];
  ++num_in_[size_t(progress.state)];
  if (event.attempt > progress.attempt) {
    progress.attempt = event.attempt;
    progress.pass = 1;
    ++progress.tries;
  }
  if (progress.state == JobState::Planned) progress.tries = event.failed_tries;
  if (progress.state == JobState::Queued && before == JobState::Running) ++progress.pass;
  if (is_final(progress.state)) {
    progress.exit = event.exit;
    progress.preempted = event.preempted;
  }
  if (is_finished(before) != is_finished(progress.state)) {
    count_finished(job, is_finished(progress.state));
  }
  return true;
}

void Jobs::rewind(uint32_t job) {
  --num_in_[size_t(jobs_[job].state)];
  ++num_in_[size_t(JobState::Submitting)];
  jobs_[job].state = JobState::Submitting;
  jobs_[job].pass = 1;
}

void Jobs::count_finished(uint32_t job, bool finished) {
  plan_.graph.each_child(
      job, [&](uint32_t child) { unfinished_parents_[child] += finished ? uint32_t(-1) : 1; });
}

bool Jobs::lacks_input(uint32_t job) const {
  bool lacks = false;
  if (count({JobState::Skipped}) == 0) return lacks;
  plan_.graph.each_parent(job, [&](uint32_t parent) {
    lacks |= jobs_[parent].state == JobState::Skipped && uses_outputs(job, parent);
  });
  return lacks;
}

std::optional<uint32_t> Jobs::obstacle(uint32_t job) const {
  std::optional<uint32_t> found;
  if (count(kBroken) == 0) return found;
  for (std::optional<uint32_t> next = job; next;) {
    const uint32_t at = *next;
    next.reset();
    plan_.graph.each_parent(at, [&](uint32_t parent) {
      if (!next && is_broken(jobs_[parent].state)) next = parent;
    });
    if (!next) break;
    found = next;
    if (jobs_[*next].state != JobState::Blocked) break;  // else its own obstacle
  }
  return found;
}

RunState Jobs::run_state() const {
  using enum JobState;
  if (count({Failed, TimedOut, Lost, Blocked}) > 0) return RunState::Failed;
  if (count({Cancelled}) > 0) return RunState::Cancelled;
  return RunState::Succeeded;
}

}  // namespace dlflow
