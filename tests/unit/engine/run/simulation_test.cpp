#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "tests/support/catch.h"
#include "tests/support/chain_world.h"

// Deterministic simulation: from a seed, people call dlflow from several shells, dlflow is killed
// between effects, answers get lost, the batch system is silent or shows nothing, jobs end well or
// badly, nodes fail, old jobs are forgotten. Whatever the order:
//
// - no two passes of a job run at once;
// - nothing that succeeded runs again;
// - once the faults are over, `dlflow resubmit` brings the run to its end, and all has succeeded.
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
)"};

class Simulation {
 public:
  explicit Simulation(uint32_t seed) : random_(seed), world_(kWorkflows[choose(3)]) {
    world_.batch.rules.gaps = choose(4) > 0;
    if (choose(4) == 0) world_.batch.rules.max_size = 2;
  }

  std::string history() const {
    std::string text;
    for (const std::string& line : history_) text += "  " + line + "\n";
    return text;
  }

  int num_kills() const { return kills_; }
  int num_submissions() const { return int(world_.batch.submitted.size()); }

  /// What is wrong, or nothing.
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
  int choose(int n) { return int(random_() % uint32_t(n)); }

  void note(const std::string& line) { history_.push_back(line); }

  /// One call of dlflow, which may be killed at any point between two effects.
  void dlflow(const std::string& verb, const std::function<void()>& call) {
    int points = choose(3) == 0 ? 1 + choose(12) : -1;
    std::string line = verb;
    const size_t before = world_.batch.submitted.size();
    on_crash_point([&](std::string_view point) {
      if (points > 0 && --points == 0) {
        line += ", killed at " + std::string(point);
        ++kills_;
        throw Killed();
      }
    });
    try {
      call();
    } catch (const Killed&) {
    } catch (const Error& error) {
      line += ": " + std::string(error.what());
    }
    on_crash_point({});
    for (size_t i = before; i < world_.batch.submitted.size(); ++i) {
      line += (i == before ? "; submitted: " : ", ") + world_.batch.submitted[i];
    }
    note(line);
  }

  void take_step() {
    const int what = choose(20);
    if (what < 9) return move_a_job();
    if (world_.directory.empty()) return dlflow("run", [this] { world_.start(); });
    if (what < 12) return dlflow("status", [this] { world_.look(); });
    if (what < 14) return dlflow("resume", [this] { world_.resume(); });
    if (what < 16) return dlflow("resubmit", [this] { world_.resubmit(); });
    if (what < 17) return dlflow("cancel", [this] { world_.cancel(); });
    make_a_fault();
  }

  void make_a_fault() {
    switch (choose(6)) {
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
      default:
        return forget_a_job();
    }
  }

  /// As after MinJobAge, without accounting.
  void forget_a_job() {
    std::vector<std::string> over;
    for (const auto& [id, job] : world_.batch.jobs()) {
      if (is_over(job.shown.state)) over.push_back(id);
    }
    if (over.empty()) return;
    const std::string id = over[size_t(choose(int(over.size())))];
    note("the batch system forgets " + id);
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
    } else if (how < 16) {
      note(name + " fails");
      world_.nodes.end(id, JobState::Failed);
    } else if (how < 18) {
      note(name + " goes back to the queue");
      world_.nodes.requeue(id);
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
    note("no more faults");
    world_.batch.lost_answers = world_.batch.lost_submissions = 0;
    world_.batch.silent_queries = world_.batch.empty_queues = 0;
    world_.batch.refuses_cancel = false;
    if (world_.directory.empty()) return "";  // nothing was ever submitted
    for (int round = 0; round < 4; ++round) {
      world_.nodes.run_all();
      try {
        world_.resubmit();
        note("resubmit");
      } catch (const Error& error) {
        note("resubmit: " + std::string(error.what()));
      }
      world_.nodes.run_all();
    }
    if (const std::string problem = check(); !problem.empty()) return problem;
    for (const auto& [job, state] : world_.look()) {
      if (state != JobState::Succeeded) return job + " is " + std::string(name(state));
    }
    return world_.nodes.open_ids().empty() ? "" : "jobs are left in the queue";
  }

  std::mt19937 random_;
  ChainWorld world_;
  std::vector<std::string> history_;
  int kills_ = 0;
};

struct Seeds {
  uint32_t first = 1, count = 2000;
};

Seeds seeds() {
  const char* const text = std::getenv("DLFLOW_SIMULATION_SEEDS");
  if (text == nullptr) return {};
  char* end = nullptr;
  const auto first = uint32_t(std::strtoul(text, &end, 10));
  return {first, *end == ':' ? uint32_t(std::strtoul(end + 1, nullptr, 10)) : 1};
}

}  // namespace

TEST_CASE("whatever happens in whatever order, a chain runs each job once to its success",
          "[simulation]") {
  if (std::filesystem::exists("/dev/shm")) ::setenv("TMPDIR", "/dev/shm", 0);  // many small files
  const Seeds chosen = seeds();
  int kills = 0, submissions = 0;
  for (uint32_t seed = chosen.first; seed < chosen.first + chosen.count; ++seed) {
    Simulation simulation(seed);
    const std::string problem = simulation.run();
    INFO("seed " << seed << "\n" << simulation.history());
    CHECK(problem == "");
    kills += simulation.num_kills();
    submissions += simulation.num_submissions();
  }
  // A simulation without faults or work would prove nothing.
  CHECK(kills >= int(chosen.count / 2));
  CHECK(submissions >= int(3 * chosen.count));
}
