#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.h"
#include "engine/run/chain/chain.h"
#include "tests/support/catch.h"
#include "tests/support/fake_nodes.h"
#include "tests/support/test_run.h"

namespace dlflow::test {

/// A run as a chain in a FakeBatchSystem, with the nodes that execute it.
class ChainWorld : public RunFolder {
 public:
  explicit ChainWorld(const std::string& steps) : RunFolder(steps) {}

  /// Services for the next call of dlflow, a second after the last one.
  ChainServices services() {
    clock.advance(std::chrono::seconds(1));
    return {store, batch, clock};
  }

  /// `dlflow run WORKFLOW`.
  ChainResult start() {
    Plan created = plan(profile);
    BatchPlan planned = create_chain(created, services(), program());
    directory = created.directory;
    return submit_chain(directory, {}, services(), std::move(planned));
  }

  /// `dlflow run --resume`, `dlflow resubmit`.
  ChainResult resume() { return submit_chain(directory, {}, services()); }
  ChainResult resubmit(const std::vector<std::string>& names = {}) {
    return submit_chain(directory, {.failed = true, .names = names}, services());
  }

  CancelResult cancel(const std::vector<std::string>& names = {}) {
    return cancel_chain(directory, names, services());
  }

  /// `dlflow status`.
  States look() {
    const ChainServices all = services();
    refresh_chains({&directory, 1}, all);
    return states();
  }

  /// `dlflow status` after all jobs in the batch system have run.
  States end_all() {
    nodes.run_all();
    return look();
  }

  /// The id of the newest job of a step, or of its element `task`.
  std::string id(const std::string& step, int task = -1) const {
    const std::string wanted = task < 0 ? "" : "_" + std::to_string(task);
    std::string newest;
    for (const std::string& id : batch.ids_of(step)) {
      if (id.ends_with(wanted)) newest = id;
    }
    return newest;
  }

  /// The first parent that a step's newest submission names.
  ParentRef parent_of(const std::string& step) const {
    return nodes.attempts_of(id(step)).front().spec.parents.at(0);
  }

  Profile profile = [] {
    Profile named;
    named.name = "alpha";
    named.scheduler = "slurm";
    return named;
  }();
  FakeClock clock;
  FakeBatchSystem batch{clock};
  FakeNodes nodes{batch, clock};
};

/// A submitted chain.
class StartedChain : public ChainWorld {
 public:
  explicit StartedChain(const std::string& steps) : ChainWorld(steps) { start(); }
};

inline States all_in(const std::vector<std::string>& jobs, JobState state) {
  States states;
  for (const std::string& job : jobs) states[job] = state;
  return states;
}

/// Checks that everything succeeded, with one program for each of `jobs`.
inline void check_ran_once(ChainWorld& world, const std::vector<std::string>& jobs) {
  CHECK(world.look() == all_in(jobs, JobState::Succeeded));
  CHECK(world.state() == RunState::Succeeded);
  CHECK(world.nodes.overlaps.empty());
  for (const std::string& job : jobs) {
    INFO(job);
    CHECK(world.nodes.runs[job] == 1);
  }
  CHECK(world.nodes.open_ids().empty());
}

/// check_ran_once() after all jobs in the batch system have run.
inline void run_all_once(ChainWorld& world, const std::vector<std::string>& jobs) {
  world.nodes.run_all();
  check_ran_once(world, jobs);
}

/// Starts a chain with more jobs than the limit `most`, and resumes it `times` times.
inline void run_within_limit(ChainWorld& world, size_t most, int times) {
  world.batch.most_jobs = most;
  CHECK_THROWS_WITH(world.start(), Catch::Contains("too many jobs"));
  for (int calls = 0; calls < times; ++calls) {
    world.nodes.run_all();
    try {
      world.resume();
    } catch (const Error&) {  // still too many jobs
    }
  }
}

/// Ends the work of dlflow when it reaches `point` for the n-th time, as kill -9 does. Returns
/// whether it got there.
inline bool killed_at(std::string_view point, int n, const std::function<void()>& work) {
  on_crash_point([point, &n](std::string_view at) {
    if (at == point && --n == 0) throw Killed();
  });
  bool killed = false;
  try {
    work();
  } catch (const Killed&) {
    killed = true;
  } catch (...) {
    on_crash_point({});
    throw;
  }
  on_crash_point({});
  return killed;
}

}  // namespace dlflow::test
