#include "engine/decide/jobs.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

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
  return takes_list_of(step.matrix, parent) || refers(step.run) || refers(step.with) ||
         refers(step.environment) || refers(step.condition);
}

constexpr auto kBroken = {JobState::Failed, JobState::TimedOut, JobState::Cancelled, JobState::Lost,
                          JobState::Blocked};

}  // namespace

JobEvent ending_of(const JobProgress& progress) {
  return {.state = progress.state, .exit = progress.exit, .preempted = progress.preempted};
}

Jobs::Jobs(const Plan& plan, std::vector<JobProgress> known) : plan_(plan) {
  const auto& steps = plan.workflow.steps;
  std::map<std::string_view, uint32_t> number_of;
  for (uint32_t step = 0; step < steps.size(); ++step) number_of[steps[step].name] = step;
  for (uint32_t child = 0; child < steps.size(); ++child) {
    for (const std::string& need : steps[child].needs) {
      if (refers_to(steps[child], need)) uses_.emplace(child, number_of.at(need));
    }
  }
  replace(std::move(known));
}

void Jobs::replace(std::vector<JobProgress> known) {
  jobs_ = std::move(known);
  unfinished_parents_.assign(jobs_.size(), 0);
  num_in_.fill(0);
  for (const JobProgress& job : jobs_) ++num_in_[size_t(job.state)];
  count_parents();
}

size_t Jobs::count(std::initializer_list<JobState> states) const {
  size_t sum = 0;
  for (const JobState state : states) sum += num_in_[size_t(state)];
  return sum;
}

/// Sums over all jobs before each make a range of parents as cheap as one.
void Jobs::count_parents() {
  std::vector<uint32_t> unfinished_before = {0};  // for a step that needs their success
  std::vector<uint32_t> open_before = {0};        // for one that always runs
  for (uint32_t job = 0; job < size(); ++job) {
    const JobState state = jobs_[job].state;
    const bool finished = dlflow::lets_run(state, step_of(job).allow_failure, false);
    unfinished_before.push_back(unfinished_before.back() + (finished ? 0 : 1));
    open_before.push_back(open_before.back() + (is_final(state) ? 0 : 1));
  }
  for (uint32_t job = 0; job < size(); ++job) {
    const std::vector<uint32_t>& before = step_of(job).always ? open_before : unfinished_before;
    for (const JobRange& range : plan_.graph.parents(job)) {
      unfinished_parents_[job] += before[range.first + range.count] - before[range.first];
    }
  }
}

bool Jobs::uses_outputs(uint32_t child, uint32_t parent) const {
  return uses_.contains({plan_.jobs[child].step, plan_.jobs[parent].step});
}

bool Jobs::lets_run(uint32_t child, uint32_t parent, JobState state) const {
  return dlflow::lets_run(step_of(child), step_of(parent), state);
}

bool Jobs::is_in_the_way(uint32_t child, uint32_t parent) const {
  const JobState state = jobs_[parent].state;
  return is_broken(state) && !lets_run(child, parent, state);
}

bool Jobs::is_allowed_failure(uint32_t job) const {
  return step_of(job).allow_failure && is_failure(jobs_[job].state);
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
  count_finished(job, before);
  return true;
}

void Jobs::rewind(uint32_t job) {
  --num_in_[size_t(jobs_[job].state)];
  ++num_in_[size_t(JobState::Submitting)];
  jobs_[job].state = JobState::Submitting;
  jobs_[job].pass = 1;
}

void Jobs::count_finished(uint32_t job, JobState before) {
  const JobState now = jobs_[job].state;
  const bool may_fail = step_of(job).allow_failure;
  const auto differs = [&](bool always) {
    return dlflow::lets_run(before, may_fail, always) != dlflow::lets_run(now, may_fail, always);
  };
  if (!differs(false) && !differs(true)) return;
  plan_.graph.each_child(job, [&](uint32_t child) {
    if (!differs(step_of(child).always)) return;
    unfinished_parents_[child] += lets_run(child, job, now) ? uint32_t(-1) : 1;
  });
}

Inputs Jobs::inputs(uint32_t job) const {
  if (count({JobState::Skipped}) == 0 && count(kBroken) == 0) return {};
  UsedParents used;
  plan_.graph.each_parent(job, [&](uint32_t parent) {
    if (!uses_outputs(job, parent)) return;
    used.add(step_of(parent).name, element_of(plan_, parent), left_by(jobs_[parent].state));
  });
  return used.judge(element_of(plan_, job), step_of(job).always);
}

std::optional<uint32_t> Jobs::failed_parent(uint32_t job, const std::string& step) const {
  std::optional<uint32_t> found;
  plan_.graph.each_parent(job, [&](uint32_t parent) {
    const bool failed = is_broken(jobs_[parent].state) && step_of(parent).name == step;
    if (failed && !found) found = parent;
  });
  return found;
}

std::optional<uint32_t> Jobs::obstacle(uint32_t job) const {
  std::optional<uint32_t> found;
  if (count(kBroken) == 0) return found;
  for (std::optional<uint32_t> next = job; next;) {
    const uint32_t at = *next;
    next.reset();
    plan_.graph.each_parent(at, [&](uint32_t parent) {
      if (!next && is_in_the_way(at, parent)) next = parent;
    });
    if (!next && unfinished_parents(at) == 0) {
      const Inputs found_there = inputs(at);
      if (found_there.kind == Inputs::Kind::Block) next = failed_parent(at, found_there.step);
    }
    if (!next) break;
    found = next;
    if (jobs_[*next].state != JobState::Blocked) break;  // else its own obstacle
  }
  return found;
}

}  // namespace dlflow
