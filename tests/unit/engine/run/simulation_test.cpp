#include "tests/support/catch.h"
#include "tests/support/chain_world.h"
#include "tests/support/simulated_shell.h"

// Deterministic simulation of a chain. From a seed, users call dlflow from several shells, dlflow
// is killed between effects and within writes, disks are full, answers get lost, the batch system
// is silent or shows nothing, records appear late, jobs end well or badly, nodes fail, and old jobs
// are forgotten. In any order:
//
// - no two passes of a job run at once;
// - no successful job runs again;
// - once the faults are over, `dlflow resubmit` brings the run to its end, and all jobs have
//   succeeded.
//
// DLFLOW_SIMULATION_SEEDS=FIRST:COUNT runs other seeds. A seed that fails prints its history.

using namespace dlflow;
using namespace dlflow::test;

namespace {

constexpr const char* kWorkflows[] = {
    R"(
  a: {run: ./a}
  b: {run: ./b, needs: [a]}
  c: {run: ./c, needs: [b]}
)",
    R"(
  a: {run: ./a}
  b: {run: ./b, needs: [a], matrix: {n: [1, 2, 3]}}
  c: {run: ./c, needs: [b], matrix: {n: [1, 2, 3]}}
  d: {run: ./d, needs: [c, a]}
)",
    R"(
  a: {run: ./a, matrix: {n: [1, 2], max_parallel: 1}}
  b: {run: ./b, needs: [a]}
  c: {run: ./c}
  d: {run: ./d, needs: [b, c]}
)",
    R"(
  a: {run: ./a, matrix: {d: [1, 2]}}
  b: {run: ./b, needs: [a], matrix: {l: [1, 2], d: [1, 2]}}
  c: {run: ./c, needs: [b], matrix: {d: [1, 2]}}
)",
    R"(
  list: {run: ./list, outputs: {l: l}}
  a: {run: ./a, matrix: {n: "${{ steps.list.outputs.l }}"}}
  more: {run: ./more, outputs: {l: l}, needs: [a]}
  b: {run: ./b, matrix: {n: "${{ steps.list.outputs.l }}", m: "${{ steps.more.outputs.l }}"}, needs: [a]}
  beside: {run: ./beside}
  c: {run: ./c, needs: [b, beside]}
)",
    R"(
  a: {run: ./a, matrix: {n: [1, 2, 3, 4, 5], pack: 2}, resources: {walltime: 1m}}
  b: {run: ./b, needs: [a], matrix: {n: [1, 2, 3, 4, 5], pack: 2}, resources: {walltime: 1m}}
  c: {run: ./c, needs: [b]}
)",
    R"(
  a: {run: ./a, matrix: {n: [1, 2, 3, 4], max_parallel: 2}}
  b: {run: ./b, needs: [a], matrix: {n: [1, 2, 3, 4], pack: 3, max_parallel: 1}, resources: {walltime: 1m}}
  c: {run: ./c, needs: [b], matrix: {n: [1, 2, 3, 4]}}
  d: {run: ./d, needs: [c]}
)"};

Json listed(const Json& list) { return {{"l", {{"value", list}, {"sha256", list.dump()}}}}; }

class Simulation {
 public:
  explicit Simulation(uint32_t seed) : dice_(seed), world_(kWorkflows[choose(7)]) {
    world_.nodes.outputs = {{"list", listed({1, 2})}, {"more", listed({"x", "y"})}};
    world_.batch.rules.gaps = choose(4) > 0;
    if (choose(4) == 0) world_.batch.rules.max_size = 2;
  }

  const SimulatedShell& shell() const { return shell_; }
  int num_jobs() const { return int(world_.batch.submitted.size()); }

  /// Returns the broken invariant, or nothing.
  std::string run() {
    dlflow("run", [this] { world_.start(); });
    const int steps = 8 + choose(24);
    for (int step = 0; step < steps; ++step) {
      if (const std::string problem = check(); !problem.empty()) return problem;
      take_step();
    }
    return drain();
  }

 private:
  int choose(int n) { return dice_.below(size_t(n)); }

  void note(const std::string& line) { shell_.note(line); }

  /// Makes one call of dlflow and notes its submissions.
  void dlflow(const std::string& verb, const std::function<void()>& work) {
    const size_t before = world_.batch.submitted.size();
    shell_.call(verb, work);
    for (size_t i = before; i < world_.batch.submitted.size(); ++i) {
      note("  submitted: " + world_.batch.submitted[i]);
    }
  }

  void take_step() {
    const int what = choose(20);
    if (what < 9) return move_a_job();
    if (world_.directory.empty()) return dlflow("run", [this] { world_.start(); });
    if (what < 12) return dlflow("status", [this] { world_.look(); });
    if (what < 14) return dlflow("resume", [this] { world_.resume(); });
    if (what < 16) return dlflow("resubmit", [this] { world_.resubmit(); });
    if (what < 17) return cancel();
    make_a_fault();
  }

  /// Cancels all jobs or one. An element that ended within the last minute runs again if it is
  /// submitted before its record appears.
  void cancel() {
    cancel_some();
    if (world_.nodes.has_unseen_records()) pass_two_minutes();
  }

  void cancel_some() {
    const std::vector<std::string> ids = world_.nodes.open_ids();
    if (choose(2) == 0 || ids.empty()) return dlflow("cancel", [this] { world_.cancel(); });
    const std::vector<std::string> jobs =
        world_.nodes.jobs_of(ids[size_t(choose(int(ids.size())))]);
    const std::string job = jobs[size_t(choose(int(jobs.size())))];
    dlflow("cancel " + job, [&] { world_.cancel({job}); });
  }

  void make_a_fault() {
    switch (choose(9)) {
      case 0:
        note("an answer will be lost");
        world_.batch.lost_answers = 1;
        return;
      case 1:
        note("a submission will be lost");
        world_.batch.lost_submissions = 1;
        return;
      case 2:
        note("the batch system is silent once");
        world_.batch.silent_queries = 1;
        return;
      case 3:
        note("the queue looks empty once");
        world_.batch.empty_queues = 1;
        return;
      case 4:
        note("cancelling is " + std::string(world_.batch.refuses_cancel ? "allowed" : "refused"));
        world_.batch.refuses_cancel = !world_.batch.refuses_cancel;
        return;
      case 5:
        note("the next records are seen late");
        world_.nodes.late_records = 1 + choose(3);
        return;
      case 6:
      case 7:
        // A network file system caches for a minute at most.
        return pass_two_minutes();
      default:
        return forget_a_job();
    }
  }

  void pass_two_minutes() {
    note("two minutes pass");
    world_.nodes.show_records();
    world_.clock.advance(std::chrono::minutes(2));
  }

  /// Forgets a job as after MinJobAge, without accounting.
  void forget_a_job() {
    std::vector<std::string> over;
    for (const auto& [id, job] : world_.batch.jobs()) {
      if (is_over(job.shown.state)) over.push_back(id);
    }
    if (over.empty()) return;
    const std::string id = over[size_t(choose(int(over.size())))];
    note("the batch system forgets " + id);
    world_.nodes.show_records();  // it waits longer than a network file system caches
    world_.batch.forget(id);
  }

  void move_a_job() {
    std::vector<std::string> movable;
    for (const std::string& id : world_.nodes.open_ids()) {
      const BatchState state = world_.batch.jobs().at(id).shown.state;
      if (state == BatchState::Running || world_.batch.is_free(id)) movable.push_back(id);
    }
    if (movable.empty()) return;
    const std::string id = movable[size_t(choose(int(movable.size())))];
    const std::string name = id + " " + world_.nodes.job_of(id);
    if (world_.batch.jobs().at(id).shown.state == BatchState::Pending) {
      note(name + (world_.nodes.begin(id) ? " begins" : " ends without having run"));
      return;
    }
    const int how = choose(20);
    if (how < 13) {
      note(name + " succeeds");
      world_.nodes.end(id, JobState::Succeeded);
      if (choose(2) == 0) {
        dlflow("its job", [this] { submit_listed(world_.directory, world_.services()); });
      }
    } else if (how < 16) {
      note(name + " fails");
      world_.nodes.end(id, JobState::Failed);
    } else if (how < 18) {
      const bool at_once = choose(2) == 0;
      note(name + (at_once ? " goes back to the queue" : " is to run again"));
      at_once ? world_.nodes.requeue(id) : world_.nodes.try_again(id);
    } else {
      note(name + " loses its node");
      world_.nodes.fail_node(id);
    }
  }

  std::string check() const {
    if (!world_.nodes.overlaps.empty()) return world_.nodes.overlaps.front() + " runs twice";
    if (!world_.nodes.repeated.empty()) return world_.nodes.repeated.front() + " ran after success";
    return "";
  }

  std::string drain() {
    note("no more faults, and a minute later");  // kRecordPatience
    shell_.calm();
    world_.clock.advance(std::chrono::minutes(1));
    world_.nodes.late_records = 0;
    world_.nodes.show_records();
    world_.batch.lost_answers = world_.batch.lost_submissions = 0;
    world_.batch.silent_queries = world_.batch.empty_queues = 0;
    world_.batch.refuses_cancel = false;
    if (world_.directory.empty()) return "";  // no job was ever submitted
    std::string unfinished;
    for (int round = 0; round < 4; ++round) {
      world_.nodes.run_all();
      try {
        world_.resubmit();
        note("resubmit");
      } catch (const Error& error) {
        note("resubmit: " + std::string(error.what()));
      }
      world_.nodes.run_all();
      unfinished = first_unfinished();
      if (unfinished.empty()) break;
    }
    return check().empty() ? unfinished : check();
  }

  /// Returns the first job that has not succeeded, with its state, or nothing.
  std::string first_unfinished() {
    for (const auto& [job, state] : world_.look()) {
      if (state != JobState::Succeeded) return job + " is " + std::string(name(state));
    }
    return world_.nodes.open_ids().empty() ? "" : "jobs are left in the queue";
  }

  Dice dice_;
  ChainWorld world_;
  SimulatedShell shell_{dice_};
};

}  // namespace

TEST_CASE("a chain finishes each job once under random events in any order", "[simulation]") {
  simulate<Simulation>(5000);
}
