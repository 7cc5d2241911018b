#include "engine/decide/decide.h"

#include <algorithm>
#include <utility>

#include "engine/decide/retry.h"
#include "engine/plan/extension.h"

namespace dlflow {
namespace {

bool has_not_begun(JobState state) {
  return state == JobState::Planned || state == JobState::Submitting || state == JobState::Queued;
}

/// Whether the job has yet to run, with the list of `step`.
bool awaits_list(const Plan& plan, const Jobs& states, uint32_t job, const std::string& step) {
  return states[job].state == JobState::Planned && takes_list_of(step_of(plan, job).matrix, step);
}

class Decisions {
 public:
  Decisions(const Plan& plan, const Jobs& states, Capabilities capabilities)
      : plan_(plan), states_(states), now_(capabilities) {}

  /// Deals with the end of a job, or notes that it may start, and notes the children to look at.
  void look_at(uint32_t job, const std::string& reason) {
    const JobState state = states_[job].state;
    if (!is_final(state)) {
      note_if_free(job);
    } else if (!is_broken(state)) {
      plan_.graph.each_child(job, [this](uint32_t child) { note_if_free(child); });
    } else if (now_.resumes || end(job, reason)) {
      plan_.graph.each_child(job, [this](uint32_t child) {
        if (has_not_begun(states_[child].state)) noted_.insert(child);
      });
    }
  }

  /// Deals with the jobs that were noted, parents before children.
  std::vector<Decision> finish() {
    for (const uint32_t job : noted_) {
      if (auto block = block_if_hopeless(plan_, states_, job, now_.submitting_is_known)) {
        add(std::move(*block));
      } else if (is_mine(job) && is_free(job) && !now_.lists_pending &&
                 may_start(plan_, job, now_)) {
        add(settle(job));
      }
    }
    return std::move(decisions_);
  }

 private:
  bool is_mine(uint32_t job) const { return now_.starts == nullptr || now_.starts->contains(job); }

  bool is_free(uint32_t job) const { return states_.unfinished_parents(job) == 0; }

  void note_if_free(uint32_t job) {
    if (has_not_begun(states_[job].state) && is_free(job)) noted_.insert(job);
  }

  void add(Decision decision) {
    now_.failed |= decision.ends_run;
    decisions_.push_back(std::move(decision));
  }

  /// Returns whether the end is final. Cancelled jobs of a run that stops are left to the next
  /// executor. Other elements of a sweep go on after the failure of one.
  bool end(uint32_t job, const std::string& reason) {
    const JobProgress& progress = states_[job];
    if (progress.state == JobState::Blocked) return true;
    const Retry& retry = step_of(plan_, job).retry;
    if (may_start(plan_, job, now_) && should_retry(retry, ending_of(progress), progress.tries)) {
      add({Decision::Kind::TryAgain, job, next_try_in_words(retry, progress.tries, reason),
           retry_delay(progress.tries)});
      return false;
    }
    if (now_.stopping && progress.state == JobState::Cancelled) return false;
    const bool goes_on = states_.is_allowed_failure(job) || !step_of(plan_, job).matrix.empty();
    add({.kind = Decision::Kind::GiveUp, .job = job, .reason = reason, .ends_run = !goes_on});
    return true;
  }

  /// A job that waits for nothing more is skipped, takes a known result, or starts.
  Decision settle(uint32_t job) const {
    using enum Decision::Kind;
    const Inputs inputs = states_.inputs(job);
    if (inputs.kind == Inputs::Kind::Skip) return {Skip, job, words(inputs)};
    // It represents elements that a list makes, and never runs itself.
    if (is_open(plan_, job)) return {Block, job, "the step that should list it wrote no list"};
    if (states_[job].state != JobState::Planned) return {Start, job};
    if (plan_.reused.contains(job)) return {Reuse, job};
    return {plan_.jobs[job].action == Action::DecideLater ? LookUp : Start, job};
  }

  const Plan& plan_;
  const Jobs& states_;
  Capabilities now_;
  std::set<uint32_t> noted_;
  std::vector<Decision> decisions_;
};

}  // namespace

std::vector<Decision> decide(const Plan& plan, const Jobs& states, const Changes& changed,
                             const Capabilities& capabilities) {
  Decisions decisions(plan, states, capabilities);
  for (const auto& [job, reason] : changed) decisions.look_at(job, reason);
  return decisions.finish();
}

std::vector<Decision> decide_when_idle(const Plan& plan, const Jobs& states,
                                       const Capabilities& capabilities) {
  using enum Decision::Kind;
  const std::vector<bool> before_always = steps_before_always(plan.workflow);
  std::vector<Decision> decisions;
  for (uint32_t job = 0; job < states.size(); ++job) {
    const bool is_free = has_not_begun(states[job].state) && states.unfinished_parents(job) == 0;
    if (!is_free || may_start(plan, job, capabilities)) continue;
    if (capabilities.stopping) {
      decisions.push_back({Withdraw, job});
    } else if (before_always[plan.jobs[job].step]) {
      decisions.push_back({Block, job, "not started, since the run has failed"});
    }
  }
  return decisions;
}

std::optional<Decision> block_if_hopeless(const Plan& plan, const Jobs& states, uint32_t job,
                                          bool submitting_is_known) {
  const JobState state = states[job].state;
  if (!has_not_begun(state)) return std::nullopt;
  if (state == JobState::Submitting && !submitting_is_known) return std::nullopt;
  const auto obstacle = states.obstacle(job);
  if (!obstacle) return std::nullopt;
  return Decision{Decision::Kind::Block, job, "waits for " + plan.jobs[*obstacle].name};
}

std::vector<uint32_t> list_sources(const Plan& plan, const Jobs& states, bool awaited) {
  std::vector<uint32_t> sources;
  for (uint32_t job = 0; job < states.size(); ++job) {
    if (!satisfies_dependents(states[job].state) || !leaves_lists(plan, plan.jobs[job].step))
      continue;
    bool is_awaited = !awaited;
    for (uint32_t other = 0; other < states.size() && !is_awaited; ++other)
      is_awaited = awaits_list(plan, states, other, step_of(plan, job).name);
    if (is_awaited) sources.push_back(job);
  }
  return sources;
}

std::vector<Decision> refuse_list(const Plan& plan, const Jobs& states, const std::string& step,
                                  const std::string& reason) {
  std::vector<Decision> decisions;
  for (uint32_t job = 0; job < states.size(); ++job) {
    if (awaits_list(plan, states, job, step))
      decisions.push_back({Decision::Kind::Block, job, "the list of " + step + ": " + reason});
  }
  return decisions;
}

bool has_a_try_left(const Plan& plan, const Jobs& states, uint32_t job) {
  const JobProgress& progress = states[job];
  return should_retry(step_of(plan, job).retry, ending_of(progress), std::max(progress.tries, 1));
}

bool may_start(const Plan& plan, uint32_t job, const Capabilities& capabilities) {
  if (capabilities.stopping) return false;
  return !capabilities.failed || capabilities.keep_going || step_of(plan, job).always;
}

}  // namespace dlflow
