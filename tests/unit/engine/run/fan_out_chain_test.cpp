#include "engine/plan/extension.h"
#include "tests/support/catch.h"
#include "tests/support/chain_world.h"

// Fan-out at run time, in a fake batch system. The same jobs are submitted whether a user or the
// job that left the list calls dlflow.

using namespace dlflow;
using namespace dlflow::test;

namespace {

const std::string kFanChain = std::string(kFanOut) + "  beside: {run: ./beside}\n";

void lists(ChainWorld& world, const std::string& step, const std::string& output,
           const Json& list) {
  world.nodes.outputs[step] = {{output, {{"value", list}, {"sha256", list.dump()}}}};
}

/// A run whose `split` will list a and b.
struct FanChain : ChainWorld {
  /// \param after  further steps.
  explicit FanChain(const std::string& after = "") : ChainWorld(kFanChain + after) {
    lists(*this, "split", "parts", {"a", "b"});
  }

  /// Runs the jobs that do not need the list.
  void start_and_split() {
    start();
    nodes.run_all();
  }
};

const Names kFanJobs = {"split", "work[part=a]", "work[part=b]", "merge", "beside"};

}  // namespace

TEST_CASE("dependents of a list are submitted once the list exists", "[fan_out]") {
  FanChain world;
  world.start();
  CHECK(world.batch.submitted == Names{"split 811", "beside 812"});
  CHECK(world.look()["work[part=?]"] == Planned);
  world.resume();  // too early
  CHECK(world.batch.submitted.size() == 2);
  CHECK(world.end_all()["work[part=?]"] == Planned);
  CHECK(world.state() == RunState::Interrupted);
  world.resume();
  CHECK(world.batch.submitted == Names{"split 811", "beside 812", "work 813", "merge 814"});
  CHECK(world.look()["work[part=b]"] == Queued);
  run_all_once(world, kFanJobs);
  world.store.rebuild_run(world.directory);
  check_ran_once(world, kFanJobs);
}

TEST_CASE("a list is laid out and submitted once despite a kill between any two effects",
          "[fan_out]") {
  const std::string point = GENERATE("list", "extension", "batches", "intents", "submit",
                                     "accepted", "recorded", "record");
  const int n = GENERATE(1, 2);
  const bool killed_in_job = GENERATE(false, true), by_job = GENERATE(false, true);
  CAPTURE(point, n, killed_in_job, by_job);
  FanChain world;
  world.start_and_split();
  const auto go_on = [&world](bool in_job) {
    in_job ? submit_listed(world.directory, world.services()) : world.resume();
  };
  killed_at(point, n, [&] { go_on(killed_in_job); });
  world.nodes.run_all();
  go_on(by_job);
  run_all_once(world, kFanJobs);
  CHECK(newest_extension(world.directory) == 1);
}

TEST_CASE("a job that has listed submits its dependents, except those that users stopped",
          "[fan_out]") {
  FanChain world("  failed: {run: ./failed}\n");
  world.start();
  const std::string failed = world.id("failed");
  world.nodes.begin(failed);
  world.nodes.fail_node(failed);
  world.look();
  world.cancel({"beside"});
  world.nodes.run_all();
  world.batch.submitted.clear();
  submit_listed(world.directory, world.services());
  CHECK(world.batch.submitted.size() == 2);          // work, merge
  submit_listed(world.directory, world.services());  // as by a requeued job
  CHECK(world.batch.submitted.size() == 2);
  const States states = world.end_all();
  CHECK(states.at("work[part=b]") == Succeeded);
  CHECK(states.at("merge") == Succeeded);
  CHECK(states.at("failed") == Lost);
  CHECK(states.at("beside") == JobState::Cancelled);
}

TEST_CASE("elements cancelled before they were listed are not submitted by a job", "[fan_out]") {
  FanChain world;
  world.start();
  world.cancel({"work"});
  world.nodes.run_all();
  world.batch.submitted.clear();
  submit_listed(world.directory, world.services());
  CHECK(world.batch.submitted.empty());
  world.resume();
  run_all_once(world, kFanJobs);
}

TEST_CASE("a reused result lists at once, and its elements and dependents are reused",
          "[fan_out]") {
  FanChain world;
  world.start_and_split();
  world.resume();
  world.end_all();
  world.batch.submitted.clear();
  world.start();
  CHECK(world.look()["work[part=a]"] == Cached);
  CHECK(world.look()["split"] == Cached);
  CHECK(world.look()["merge"] == Cached);
}

TEST_CASE("elements of an earlier list wait until the step has listed again", "[fan_out]") {
  FanChain world;
  world.start_and_split();
  world.resume();
  for (const std::string& id : world.nodes.open_ids()) {
    if (world.nodes.job_of(id) == "merge" || !world.batch.is_free(id)) continue;
    world.nodes.pass(id, world.nodes.job_of(id) == "work[part=b]" ? Failed : Succeeded);
  }
  CHECK(world.look()["work[part=b]"] == Failed);
  std::filesystem::remove_all(world.directory / "steps" / "split");  // it has to run again
  world.batch.submitted.clear();
  lists(world, "split", "parts", {"a", "c"});
  world.resubmit();
  CHECK(world.batch.submitted.size() == 1);  // only split
  world.nodes.run_all();
  world.resume();
  CHECK(world.states()["merge"] == Queued);  // in its old place
  world.nodes.run_all();
  world.resume();
  CHECK(world.end_all() == States{{"split", Succeeded},
                                  {"work[part=a]", Succeeded},
                                  {"work[part=c]", Succeeded},
                                  {"merge", Succeeded},
                                  {"beside", Succeeded}});
  CHECK(world.nodes.runs["work[part=a]"] == 2);  // from the list of its first run
  CHECK(world.nodes.runs["merge"] == 1);
}

TEST_CASE("results of an earlier list that another run uses stay, also in a batch system",
          "[fan_out]") {
  FanChain world;
  const auto run_all = [&world](const std::string& failing) {
    world.start_and_split();
    world.resume();
    for (const std::string& id : world.nodes.open_ids()) {
      if (!world.batch.is_free(id)) continue;
      world.nodes.pass(id, world.nodes.job_of(id) == failing ? Failed : Succeeded);
    }
    return world.look();
  };
  CHECK(run_all("work[part=b]")["work[part=b]"] == Failed);
  const std::filesystem::path first = world.directory;
  REQUIRE(run_all("")["work[part=a]"] == Cached);
  const std::string second = run_name(world.directory);
  world.directory = first;
  std::filesystem::remove_all(first / "steps" / "split");
  lists(world, "split", "parts", {"a", "c"});
  world.resubmit();
  world.nodes.run_all();
  world.resume();
  CHECK(world.look()["work[part=a]"] == Succeeded);
  CHECK(world.nodes.runs["work[part=a]"] == 1);
  CHECK_THAT(world.reason("work[part=b]"),
             Catch::Contains("the result of work[part=a] is used by " + second));
}

TEST_CASE("a list that makes no jobs blocks its dependents", "[fan_out]") {
  ChainWorld world(R"(
  split: {run: ./split, outputs: {parts: p.json}}
  work: {matrix: {n: "${{ steps.split.outputs.parts }}"}, run: ./work, resources: {ranks: "${{ matrix.n }}"}}
  merge: {run: ./merge, needs: [work]}
)");
  lists(world, "split", "parts", {1, 0});
  world.start();
  world.nodes.run_all();
  world.resume();
  CHECK(world.look() == States{{"split", Succeeded}, {"work[n=?]", Blocked}, {"merge", Blocked}});
  CHECK(world.state() == RunState::Failed);
  world.resume();
  CHECK(world.look()["work[n=?]"] == Blocked);
}

TEST_CASE("a cancelled chain goes on with its list", "[fan_out]") {
  FanChain world;
  world.start_and_split();
  world.cancel();
  world.resume();
  run_all_once(world, kFanJobs);
}
