#include "engine/run/jobs.h"

#include <algorithm>
#include <array>
#include <initializer_list>
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

bool is_broken(JobState state) { return is_final(state) && !is_finished(state); }

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
  for (uint32_t job = 0; job < size(); ++job) {
    plan.graph.each_parent(job, [&](uint32_t parent) {
      if (!is_finished(jobs_[parent].state)) ++unfinished_parents_[job];
    });
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
  jobs_[job].state = JobState::Submitting;
  jobs_[job].pass = 1;
}

void Jobs::count_finished(uint32_t job, bool finished) {
  plan_.graph.each_child(
      job, [&](uint32_t child) { unfinished_parents_[child] += finished ? uint32_t(-1) : 1; });
}

bool Jobs::lacks_input(uint32_t job) const {
  bool lacks = false;
  plan_.graph.each_parent(job, [&](uint32_t parent) {
    lacks |= jobs_[parent].state == JobState::Skipped && uses_outputs(job, parent);
  });
  return lacks;
}

std::optional<uint32_t> Jobs::obstacle(uint32_t job) const {
  std::optional<uint32_t> found;
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
  std::array<size_t, size_t(Skipped) + 1> count{};
  for (const JobProgress& job : jobs_) ++count[size_t(job.state)];
  const auto any = [&count](std::initializer_list<JobState> states) {
    return std::any_of(states.begin(), states.end(),
                       [&count](JobState state) { return count[size_t(state)] > 0; });
  };
  if (any({Failed, TimedOut, Lost, Blocked})) return RunState::Failed;
  if (any({Cancelled})) return RunState::Cancelled;
  return RunState::Succeeded;
}

}  // namespace dlflow
