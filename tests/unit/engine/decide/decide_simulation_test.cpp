#include <algorithm>
#include <sstream>

#include "engine/decide/decide.h"
#include "tests/support/catch.h"
#include "tests/support/dice.h"
#include "tests/support/parsed.h"
#include "tests/unit/engine/plan/plan_of.h"

// Random histories of decide() alone: small workflows with sweeps, allowed failures, steps that
// always run and retries; jobs that end in all ways or save and go on; a stop; executors that are
// killed. Whatever the order:
//
// - a job starts only if its parents let it, once at a time, and a supervisor that looks at the
// same
//   parents would run it, too (P3);
// - no job is tried more often than its step says;
// - a job is blocked only behind one that ended badly;
// - at the end each job has ended, unless the run was stopped or failed before.
//
// DLFLOW_SIMULATION_SEEDS=FIRST:COUNT runs other seeds; 0:1000000 takes about a minute.

using namespace dlflow;
using namespace dlflow::test;

namespace {

std::string random_steps(Dice& dice) {
  std::ostringstream text;
  text << "name: w\nsteps:\n";
  const int steps = 2 + dice.below(4);
  for (int step = 0; step < steps; ++step) {
    std::string needs, used;
    for (int parent = 0; parent < step; ++parent) {
      if (!dice.once_in(2)) continue;
      const std::string name = "s" + std::to_string(parent);
      needs += (needs.empty() ? "" : ", ") + name;
      if (dice.once_in(2)) used += ", \"${{ length(steps." + name + ".outputs.o) }}\"";
    }
    text << "  s" << step << ": {run: [./s" << used << "], outputs: {o: o}, needs: [" << needs
         << "]";
    if (dice.once_in(2)) text << ", matrix: {n: [0, 1]}";
    if (dice.once_in(4)) text << ", allow_failure: true";
    if (dice.once_in(5)) text << ", if: \"${{ always() }}\"";
    if (dice.once_in(3)) text << ", retry: {attempts: 2, on: [failure, node-failure]}";
    text << "}\n";
  }
  return text.str();
}

/// An executor whose jobs end by chance.
class History {
 public:
  History(const Plan& plan, const Jobs& fresh, Dice& dice)
      : plan_(plan), dice_(dice), states_(fresh), started_(fresh.size(), 0) {
    now_.keep_going = dice.once_in(2);
  }

  /// Returns what is wrong, or nothing.
  std::string run() {
    begin();
    while (problem_.empty()) {
      settle();
      if (active_.empty() && !may_start_one()) {
        const auto decisions = decide_when_idle(plan_, states_, now_);
        for (const Decision& decision : decisions) carry_out(decision);
        if (decisions.empty()) break;
        continue;
      }
      take_step();
    }
    if (problem_.empty()) check_end();
    return problem_;
  }

 private:
  void begin() {
    now_.resumes = true;
    waiting_.clear();
    for (uint32_t job = 0; job < states_.size(); ++job) {
      if (!active_.contains(job) && states_[job].state != JobState::Cancelled) changed_[job];
    }
  }

  bool may_start_one() const {
    return std::any_of(waiting_.begin(), waiting_.end(),
                       [this](uint32_t job) { return may_start(plan_, job, now_); });
  }

  void settle() {
    while (!changed_.empty() && problem_.empty()) {
      const Changes changed = std::exchange(changed_, {});
      for (const Decision& decision : decide(plan_, states_, changed, now_)) carry_out(decision);
      now_.resumes = false;
    }
  }

  void move(uint32_t job, JobState state, int attempt = 0) {
    JobEvent event;
    event.state = state;
    event.attempt = attempt > 0 ? attempt : states_[job].attempt;
    event.failed_tries = states_[job].tries;
    if (!states_.update(job, event)) say(job, "must not become " + std::string(name(state)));
  }

  void carry_out(const Decision& decision) {
    using enum Decision::Kind;
    const uint32_t job = decision.job;
    switch (decision.kind) {
      case LookUp:
        if (dice_.once_in(4)) return end(job, JobState::Cached);
        [[fallthrough]];
      case Start:
        waiting_.insert(job);
        return;
      case TryAgain:
        move(job, JobState::Planned);
        waiting_.insert(job);
        return;
      case GiveUp:
        now_.failed |= decision.ends_run;
        return;
      case Block:
        if (!states_.obstacle(job) &&
            decision.reason.find("the run has failed") == std::string::npos)
          say(job, "is blocked for no reason");
        return end(job, JobState::Blocked);
      case Skip:
        return end(job, JobState::Skipped);
      case Withdraw:
        return move(job, JobState::Cancelled);
      case Reuse:
        say(job, "has no result to reuse");
    }
  }

  void end(uint32_t job, JobState state) {
    waiting_.erase(job);
    move(job, state);
    changed_[job];
  }

  void take_step() {
    if (dice_.once_in(40)) now_.stopping = true;
    if (dice_.once_in(20)) return resume();
    if (!active_.empty() && (dice_.once_in(2) || !may_start_one())) {
      const uint32_t job = dice_.one_of(active_);
      active_.erase(job);
      constexpr JobState kEnds[] = {JobState::Succeeded, JobState::Succeeded, JobState::Succeeded,
                                    JobState::Failed,    JobState::Lost,      JobState::TimedOut,
                                    JobState::Queued,    JobState::Cancelled};
      move(job, kEnds[dice_.below(std::size(kEnds))]);
      changed_[job] = "by chance";
      failed_ |= is_broken(states_[job].state);
    } else if (may_start_one()) {
      uint32_t job = dice_.one_of(waiting_);
      while (!may_start(plan_, job, now_)) job = dice_.one_of(waiting_);
      start(job);
    }
  }

  void start(uint32_t job) {
    waiting_.erase(job);
    if (!active_.insert(job).second) say(job, "runs already");
    check_parents(job);
    if (states_[job].state == JobState::Planned) {
      if (++started_[job] > step_of(plan_, job).retry.attempts) say(job, "is tried too often");
      move(job, JobState::Submitting, states_[job].attempt + 1);
    }
    move(job, JobState::Running);
  }

  void check_parents(uint32_t job) {
    const Step& step = step_of(plan_, job);
    plan_.graph.each_parent(job, [&](uint32_t parent) {
      const JobState state = states_[parent].state;
      if (!lets_run(step, step_of(plan_, parent), state)) say(job, "starts too early");
      ParentRef seen;
      seen.may_fail = step_of(plan_, parent).allow_failure;
      if (!satisfies_dependents(state) && !left_without_result(seen, state, step.always))
        say(job, "would be refused on its node");
    });
    if (states_.inputs(job).kind != Inputs::Kind::Enough) say(job, "lacks what it uses");
  }

  /// Another executor begins, as `dlflow run --resume` after a kill.
  void resume() {
    changed_.clear();
    now_.failed = failed_ = false;
    for (uint32_t job = 0; job < states_.size(); ++job) {
      const JobState state = states_[job].state;
      if (!is_broken(state) || state == JobState::Blocked) continue;
      if (has_a_try_left(plan_, states_, job)) move(job, JobState::Planned);
    }
    begin();
  }

  /// A cancelled job blocks nothing when a run is resumed: its descendants may be left.
  void check_end() {
    if (now_.failed && !failed_) say(0, "is not the reason for which the run has failed");
    std::vector<bool> excused(states_.size(), false);
    for (uint32_t job = 0; job < states_.size(); ++job) {  // parents before children
      plan_.graph.each_parent(job, [&](uint32_t parent) {
        if (excused[parent] || states_[parent].state == JobState::Cancelled) excused[job] = true;
      });
      const bool is_over = is_final(states_[job].state) || !may_start(plan_, job, now_);
      if (!is_over && !excused[job]) say(job, "is left over");
    }
  }

  void say(uint32_t job, const std::string& what) {
    if (problem_.empty()) problem_ = plan_.jobs[job].name + " " + what;
  }

  const Plan& plan_;
  Dice& dice_;
  Jobs states_;
  Capabilities now_;
  Changes changed_;
  std::set<uint32_t> waiting_, active_;
  std::vector<int> started_;
  bool failed_ = false;  // a job ended badly under this executor
  std::string problem_;
};

}  // namespace

TEST_CASE("random histories of decisions keep every promise", "[decide][simulation]") {
  constexpr uint64_t kPerPlan = 500;
  const Seeds seeds = seeds_from("DLFLOW_SIMULATION_SEEDS", {0, 20'000});
  std::string text;
  Plan plan;
  std::unique_ptr<Jobs> fresh;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    if (seed == seeds.first || seed % kPerPlan == 0) {
      Dice dice(seed / kPerPlan);
      text = random_steps(dice);
      fresh.reset();
      plan = plan_of(parsed(text));
      fresh = std::make_unique<Jobs>(plan, std::vector<JobProgress>(plan.jobs.size()));
    }
    Dice dice(seed);
    const std::string problem = History(plan, *fresh, dice).run();
    if (!problem.empty()) FAIL("seed " << seed << ": " << problem << "\n" << text);
  }
}
