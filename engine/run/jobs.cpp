#include "engine/run/jobs.h"

#include <algorithm>
#include <array>
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

bool is_done(JobState state) { return satisfies_dependents(state) || state == JobState::Skipped; }

}  // namespace

Jobs::Jobs(const Plan& plan) : plan_(plan), jobs_(plan.jobs.size()) {
  const auto& steps = plan.workflow.steps;
  std::map<std::string_view, uint32_t> number_of;
  for (uint32_t step = 0; step < steps.size(); ++step) number_of[steps[step].name] = step;
  for (uint32_t child = 0; child < steps.size(); ++child) {
    for (const std::string& need : steps[child].needs) {
      if (refers_to(steps[child], need)) uses_.emplace(child, number_of.at(need));
    }
  }
  for (uint32_t job = 0; job < size(); ++job) {
    jobs_[job].unfinished_parents = uint32_t(plan.graph.num_parents(job));
  }
}

bool Jobs::uses_outputs(uint32_t child, uint32_t parent) const {
  return uses_.contains({plan_.jobs[child].step, plan_.jobs[parent].step});
}

void Jobs::count_unfinished_parents() {
  for (uint32_t job = 0; job < size(); ++job) {
    JobProgress& progress = jobs_[job];
    progress.unfinished_parents = 0;
    progress.lacks_input = false;
    for (const JobRange& range : plan_.graph.parents(job)) {
      for (uint32_t parent = range.first; parent < range.first + range.count; ++parent) {
        const JobState state = jobs_[parent].state;
        if (!is_done(state)) ++progress.unfinished_parents;
        if (state == JobState::Skipped && uses_outputs(job, parent)) progress.lacks_input = true;
      }
    }
  }
}

std::vector<uint32_t> Jobs::release_children(uint32_t job) {
  std::vector<uint32_t> released;
  const bool skipped = jobs_[job].state == JobState::Skipped;
  for (const JobRange& range : plan_.graph.children(job)) {
    for (uint32_t child = range.first; child < range.first + range.count; ++child) {
      JobProgress& progress = jobs_[child];
      if (skipped && uses_outputs(child, job)) progress.lacks_input = true;
      if (--progress.unfinished_parents == 0) released.push_back(child);
    }
  }
  return released;
}

std::vector<uint32_t> Jobs::block_descendants(uint32_t job) {
  std::vector<uint32_t> blocked;
  std::vector<uint32_t> open = {job};
  while (!open.empty()) {
    const uint32_t next = open.back();
    open.pop_back();
    for (const JobRange& range : plan_.graph.children(next)) {
      for (uint32_t child = range.first; child < range.first + range.count; ++child) {
        if (jobs_[child].state != JobState::Planned) continue;
        jobs_[child].state = JobState::Blocked;
        blocked.push_back(child);
        open.push_back(child);
      }
    }
  }
  std::sort(blocked.begin(), blocked.end());
  return blocked;
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
