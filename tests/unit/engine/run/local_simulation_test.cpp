#include <signal.h>

#include "engine/run/restore.h"
#include "tests/support/catch.h"
#include "tests/support/fake_machine.h"
#include "tests/support/silent_observer.h"
#include "tests/support/simulated_shell.h"
#include "tests/support/test_run.h"

// The simulation of simulation_test.cpp for runs on this machine. Users call dlflow from several
// shells; an engine is killed between effects and within writes; its disk is full; Ctrl-C is typed;
// supervisors succeed, fail, save at their walltime, are slow to save, and are killed with or
// without the engine; and handed-over jobs are lost. The same three invariants hold in any order.

using namespace dlflow;
using namespace dlflow::test;

namespace {

constexpr const char* kWorkflows[] = {
    R"(
  a: {run: ./a}
  b: {run: ./b, needs: [a], retry: {attempts: 2}}
  c: {run: ./c, needs: [b]}
)",
    R"(
  a: {run: ./a, retry: {attempts: 3}}
  b: {run: ./b, needs: [a], matrix: {n: [1, 2, 3]}}
  c: {run: ./c, needs: [b], matrix: {n: [1, 2, 3]}}
  d: {run: ./d, needs: [c, a]}
)",
    R"(
  a: {run: ./a, matrix: {n: [1, 2, 3], max_parallel: 1}}
  b: {run: ./b, needs: [a]}
  c: {run: ./c}
  d: {run: ./d, needs: [b, c]}
)",
    R"(
  list: {run: ./list, outputs: {l: l}, retry: {attempts: 2}}
  a: {run: ./a, matrix: {n: "${{ steps.list.outputs.l }}"}}
  more: {run: ./more, outputs: {l: l}, needs: [a]}
  b: {run: ./b, matrix: {n: "${{ steps.list.outputs.l }}", m: "${{ steps.more.outputs.l }}"}, needs: [a]}
  beside: {run: ./beside}
  c: {run: ./c, needs: [b, beside]}
)"};

Json listed(const Json& list) { return {{"l", {{"value", list}, {"sha256", list.dump()}}}}; }

class Simulation {
 public:
  explicit Simulation(uint32_t seed) : dice_(seed), run_(kWorkflows[dice_.below(4)]) {
    machine_.outputs = {{"list", listed({1, 2, 3})}, {"more", listed({"x", "y"})}};
    machine_.while_waiting = [this] { shell_.by_others([this] { let_time_pass(); }); };
  }

  const SimulatedShell& shell() const { return shell_; }
  int num_jobs() const { return machine_.num_begun; }

  /// Returns the broken invariant, or nothing.
  std::string run() {
    start();
    const int calls = 2 + dice_.below(6);
    for (int i = 0; i < calls && problem().empty(); ++i) {
      for (int moves = dice_.below(4); moves > 0; --moves) move_a_job();
      call_dlflow();
    }
    return problem().empty() ? drain() : problem();
  }

 private:
  static constexpr int kMostWaits = 2000;

  Services services() { return {run_.store, machine_, observer_, clock_}; }

  void start() {
    shell_.call("run", [this] {
      Plan plan = run_.plan();
      create_run(plan, services(), run_.program());
      run_.directory = plan.directory;
      start_run(std::move(plan), services(), options());
    });
  }

  RunOptions options() { return {.keep_going = dice_.once_in(2)}; }

  void call_dlflow() {
    if (run_.directory.empty()) return start();
    switch (dice_.below(6)) {
      case 0:
      case 1:
        shell_.call("resume", [this] { resume_run(run_.directory, services(), options()); });
        break;
      case 2:
      case 3:
        shell_.call("resubmit",
                    [this] { resubmit_run(run_.directory, {}, services(), options()); });
        break;
      case 4:
        shell_.call("cancel", [this] { cancel_run(run_.directory, services(), {}); });
        break;
      default:
        shell_.call("status", [this] { look(); });
    }
    if (dice_.once_in(3)) {
      shell_.note("what did not begin is lost");
      machine_.lose_waiting();
    }
  }

  States look() {
    sync_idle_run(run_.store, run_.directory);
    return run_.states();
  }

  /// Called while an engine waits.
  void let_time_pass() {
    if (++waits_ > kMostWaits) throw Killed();
    if (is_calm_) return move_a_job();
    const int what = dice_.below(40);
    if (what < 30) return move_a_job();
    if (what < 32) return shell_.note("status from another shell"), void(look());
    if (what < 33) {
      shell_.note("cancel from another shell");
      cancel_run(run_.directory, services(), {});
      return;
    }
    if (what < 34) {
      shell_.note("Ctrl-C");
      ::raise(SIGINT);
      return;
    }
    if (what < 36) {
      shell_.note("the engine is killed");
      if (dice_.once_in(3)) reboot();
      throw Killed();
    }
  }

  void reboot() {
    shell_.note("with it all that runs");
    for (const std::string& pass : machine_.running()) machine_.kill(pass);
    machine_.lose_waiting();
  }

  void move_a_job() {
    std::vector<std::string> passes = machine_.waiting();
    const size_t num_waiting = passes.size();
    for (const std::string& pass : machine_.running()) passes.push_back(pass);
    if (passes.empty()) return;
    const size_t at = size_t(dice_.below(passes.size()));
    if (at < num_waiting) {
      shell_.note(passes[at] + " begins");
      machine_.begin(passes[at]);
    } else if (is_calm_) {
      machine_.end(passes[at], JobState::Succeeded);
    } else {
      end(passes[at]);
    }
  }

  void end(const std::string& pass) {
    const int how = dice_.below(20);
    if (machine_.is_asked_to_end(pass) && how < 12) {
      shell_.note(pass + " is cancelled");
      machine_.end(pass, JobState::Cancelled);
    } else if (how < 12) {
      shell_.note(pass + " succeeds");
      machine_.end(pass, JobState::Succeeded);
    } else if (how < 15) {
      shell_.note(pass + " fails");
      machine_.end(pass, JobState::Failed);
    } else if (how < 17) {
      shell_.note(pass + " saves and waits for its next pass");
      machine_.end(pass, JobState::Queued);
    } else if (how < 18) {
      shell_.note(pass + " is killed");
      machine_.kill(pass);
    }  // otherwise it runs on
  }

  std::string problem() const {
    if (waits_ > kMostWaits) return "the engine does not come to an end";
    if (!machine_.overlaps.empty()) return machine_.overlaps.front() + " runs twice";
    if (!machine_.repeated.empty()) return machine_.repeated.front() + " ran after success";
    return "";
  }

  std::string drain() {
    shell_.note("no more faults");
    shell_.calm();
    is_calm_ = true;
    waits_ = 0;
    if (run_.directory.empty()) return "";  // the run never had a folder
    for (int round = 0; round < 2; ++round) {
      shell_.call("resubmit", [this] { resubmit_run(run_.directory, {}, services(), {}); });
    }
    if (!problem().empty()) return problem();
    for (const auto& [job, state] : look()) {
      if (state == JobState::Succeeded) continue;
      for (const JobEvent& event : run_.store.events(run_.directory.string(), JobName(job))) {
        shell_.note("  event " + to_line(event));
      }
      return job + " is " + std::string(name(state));
    }
    return run_.state() == RunState::Succeeded ? "" : "the run has not succeeded";
  }

  Dice dice_;
  RunFolder run_;
  FakeClock clock_;
  FakeMachine machine_{clock_};
  SilentObserver observer_;
  SimulatedShell shell_{dice_};
  int waits_ = 0;
  bool is_calm_ = false;
};

}  // namespace

TEST_CASE("a local run finishes each job once under random events in any order", "[simulation]") {
  ::signal(SIGINT, SIG_IGN);  // a signal while an engine is killed must not end this process
  simulate<Simulation>(5000);
}
