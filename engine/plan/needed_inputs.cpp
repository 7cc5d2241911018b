#include "engine/plan/needed_inputs.h"

#include "engine/plan/graph.h"

namespace dlflow {

bool is_failure(JobState state) {
  return state == JobState::Failed || state == JobState::TimedOut || state == JobState::Lost;
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

Inputs judge(const std::vector<UsedParents>& used, bool always) {
  Inputs found;
  for (const UsedParents& parents : used) {
    if (parents.left > 0 && (parents.is_list || parents.skipped + parents.failed == 0)) continue;
    if (parents.is_list && parents.failed > 0) {
      if (always) continue;
      return {Inputs::Kind::Block, parents.step};
    }
    if (found.kind == Inputs::Kind::Enough) found = {Inputs::Kind::Skip, parents.step};
  }
  return found;
}

std::string words(const Inputs& inputs) {
  if (inputs.kind == Inputs::Kind::Block) return "nothing of " + inputs.step + " succeeded";
  return "it uses " + inputs.step + ", which was skipped or has failed";
}

}  // namespace dlflow
