#include "engine/decide/needed_inputs.h"

#include "engine/plan/fingerprint.h"
#include "engine/plan/graph.h"

namespace dlflow {

bool is_broken(JobState state) {
  return is_failure(state) || state == JobState::Cancelled || state == JobState::Blocked;
}

bool lets_run(JobState state, bool may_fail, bool always) {
  if (satisfies_dependents(state) || state == JobState::Skipped) return true;
  return (may_fail && is_failure(state)) || (always && is_final(state));
}

bool lets_run(const Step& child, const Step& parent, JobState state) {
  return lets_run(state, parent.allow_failure, child.always);
}

bool waits_for_end(const Step& child, const Step& parent) {
  return child.always || parent.allow_failure;
}

std::vector<bool> steps_before_always(const Workflow& workflow) {
  std::vector<bool> before(workflow.steps.size(), false);
  for (uint32_t always = 0; always < workflow.steps.size(); ++always) {
    if (!workflow.steps[always].always) continue;
    const std::vector<bool> needed = needed_for(workflow, workflow.steps[always].name);
    for (uint32_t step = 0; step < needed.size(); ++step) {
      if (needed[step] && step != always) before[step] = true;
    }
  }
  return before;
}

Left left_by(JobState state) {
  if (is_broken(state)) return Left::Failed;
  return state == JobState::Skipped ? Left::Skipped : Left::Result;
}

std::optional<Left> left_without_result(const ParentRef& parent, std::optional<JobState> state,
                                        bool always) {
  if (parent.skipped || state == JobState::Skipped) return Left::Skipped;
  // If a node failed, nobody recorded the end of its job.
  const bool failed = !state             ? parent.failed
                      : is_final(*state) ? (parent.may_fail || parent.failed) && is_failure(*state)
                                         : parent.may_fail || parent.failed;
  if (always || failed) return Left::Failed;
  return std::nullopt;
}

void UsedParents::add(const std::string& step, const Json& element, Left left) {
  Jobs& jobs = steps_.try_emplace(step, Jobs{.element = element}).first->second;
  ++(left == Left::Failed ? jobs.failed : left == Left::Skipped ? jobs.skipped : jobs.left);
}

Inputs UsedParents::judge(const Json& element, bool always) const {
  Inputs found;
  for (const auto& [step, jobs] : steps_) {
    const size_t missing = jobs.skipped + jobs.failed;
    const bool list = is_list(jobs.left + missing, jobs.element, element);
    if (jobs.left > 0 && (list || missing == 0)) continue;
    if (list && jobs.failed > 0) {
      if (always) continue;
      return {Inputs::Kind::Block, step};
    }
    if (found.kind == Inputs::Kind::Enough) found = {Inputs::Kind::Skip, step};
  }
  return found;
}

std::string words(const Inputs& inputs) {
  if (inputs.kind == Inputs::Kind::Block) return "nothing of " + inputs.step + " succeeded";
  return "it uses " + inputs.step + ", which was skipped or has failed";
}

}  // namespace dlflow
