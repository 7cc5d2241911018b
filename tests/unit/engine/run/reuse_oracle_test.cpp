#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "tests/support/catch.h"
#include "tests/unit/engine/run/random_workflow.h"
#include "tests/unit/engine/run/reuse_model.h"
#include "tests/unit/engine/run/reuse_world.h"

/// Compares reused results with those of a fresh run. Small random workflows are edited at random
/// and run in a world that reuses as much as possible. Its publications must equal those of a
/// model, byte for byte. For some seeds, a second world that starts anew each time shows that the
/// model is right.
///
///   DLFLOW_ORACLE_SEEDS=2000:10000 build/tests/reuse_oracle_test     10,000 others than the usual
///   2,000
using namespace dlflow;
using namespace dlflow::test;

namespace {

struct Count {
  size_t seeds = 0, jobs = 0, reused = 0;
};

/// One of 20 in each quarter.
bool has_fresh_world(uint64_t seed) { return seed % 80 < 4; }

/// Runs the workflow of one seed several times, with edits between the runs.
void try_seed(uint64_t seed, Count& count) {
  Dice dice(seed);
  RandomWorkflow workflow = random_workflow(dice);
  std::map<std::string, std::string> shared;  // by user: content of the file in the model
  World reusing(true);
  std::optional<World> fresh;
  if (has_fresh_world(seed)) fresh.emplace(false);
  const auto in_worlds = [&](const auto& act) {
    act(reusing);
    if (fresh) act(*fresh);
  };
  for (int round = 0; round < 4; ++round) {
    const std::string user = dice.once_in(3) ? "bob" : "ann";
    const bool keeps_time = dice.once_in(2);
    in_worlds([&](World& world) { world.write_data(workflow.data, keeps_time); });
    const bool changes_late = dice.once_in(6);
    RandomWorkflow seen = workflow;  // by the programs
    if (changes_late) seen.data += " late";
    const auto late = [&](World& world) {
      return [&] {
        if (changes_late) world.write_data(seen.data, true);
      };
    };
    const auto expected = ModelRun(seen, shared[user]).published();
    if (fresh) {
      for (const auto& [job, content] : fresh->run(workflow, user, late(*fresh))) {
        INFO("seed " << seed << ", round " << round << ", " << user << ", fresh job " << job);
        REQUIRE(content == expected.at(job));
      }
    }
    const auto found = reusing.run(workflow, user, late(reusing));
    // A change after the plan may or may not be noticed; later rounds must not depend on it.
    for (const auto& [job, content] : expected) {
      INFO("seed " << seed << ", round " << round << ", " << user << ", job " << job);
      const bool is_stopped = !found.contains(job);  // before it reached that job
      if (!changes_late && !is_stopped) REQUIRE(found.at(job) == content);
    }
    const auto writer = std::ranges::find(workflow.steps, true, &RandomStep::writes_shared);
    if (writer != workflow.steps.end() && dice.once_in(3)) {
      std::ranges::find(seen.steps, true, &RandomStep::writes_shared)->constant = dice.below(2);
      ModelRun(seen, shared[user]);
      in_worlds([&](World& world) { world.run_killed(seen, user, writer->name); });
    }
    for (int edits = dice.below(3); edits >= 0; --edits) {
      // The model ignores damage to results.
      if (dice.once_in(4)) {
        reusing.damage(dice);
      } else {
        edit(workflow, dice);
      }
    }
  }
  ++count.seeds;
  count.jobs += reusing.num_jobs();
  count.reused += reusing.num_reused();
}

/// Tries every fourth seed, from the `quarter`-th on.
void try_seeds(uint64_t quarter) {
  if (::access("/dev/shm", W_OK) == 0) ::setenv("TMPDIR", "/dev/shm", 1);  // no waits for a disk
  Count count;
  const auto [first, number] = seeds_from("DLFLOW_ORACLE_SEEDS", {.first = 0, .count = 2000});
  for (uint64_t seed = first + quarter; seed < first + number; seed += 4) try_seed(seed, count);
  std::printf("%zu seeds, %zu jobs, %zu of them reused\n", count.seeds, count.jobs, count.reused);
  CHECK(count.reused * 10 > count.jobs);  // a world without reuse would prove nothing
}

}  // namespace

TEST_CASE("reused results equal those of a fresh run: first quarter of the seeds", "[oracle]") {
  try_seeds(0);
}
TEST_CASE("reused results equal those of a fresh run: second quarter of the seeds", "[oracle]") {
  try_seeds(1);
}
TEST_CASE("reused results equal those of a fresh run: third quarter of the seeds", "[oracle]") {
  try_seeds(2);
}
TEST_CASE("reused results equal those of a fresh run: fourth quarter of the seeds", "[oracle]") {
  try_seeds(3);
}
