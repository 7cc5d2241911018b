#include "engine/plan/extension.h"
#include "tests/support/catch.h"
#include "tests/support/chain_world.h"

// Fan-out known at run time, in a batch system that is played. What is submitted by whom is the
// same whether a person or the job that left the list calls dlflow.

using namespace dlflow;
using namespace dlflow::test;
using enum JobState;
using Names = std::vector<std::string>;

namespace {

constexpr const char* kFanChain = R"(
  split: {run: ./split, outputs: {parts: p.json}}
  work: {matrix: {part: "${{ steps.split.outputs.parts }}"}, run: ./work, outputs: {o: o}}
  merge: {run: [./merge, "${{ join(steps.work.outputs.o, ' ') }}"]}
  beside: {run: ./beside}
)";

void lists(ChainWorld& world, const std::string& step, const std::string& output,
           const Json& list) {
  world.nodes.outputs[step] = {{output, {{"value", list}, {"sha256", list.dump()}}}};
}

const Names kFanJobs = {"split", "work[part=a]", "work[part=b]", "merge", "beside"};

}  // namespace

TEST_CASE("what waits for a list is submitted once the list is there", "[fan_out]") {
  ChainWorld world(kFanChain);
  lists(world, "split", "parts", {"a", "b"});
  world.start();
  CHECK(world.batch.submitted == Names{"split 811", "beside 812"});
  CHECK(world.look()["work[part=?]"] == Planned);
  world.resume();  // too early
  CHECK(world.batch.submitted.size() == 2);
  world.nodes.run_all();
  CHECK(world.look()["work[part=?]"] == Planned);
  CHECK(world.state() == RunState::Interrupted);
  world.resume();
  CHECK(world.batch.submitted == Names{"split 811", "beside 812", "work 813", "merge 814"});
  CHECK(world.look()["work[part=b]"] == Queued);
  run_all_once(world, kFanJobs);
  world.store.rebuild_run(world.directory);
  check_ran_once(world, kFanJobs);
}

TEST_CASE("killed between any two effects, the list is laid out and submitted once", "[fan_out]") {
  const std::string point = GENERATE("list", "extension", "batches", "intents", "submit",
                                     "accepted", "recorded", "record");
  const int n = GENERATE(1, 2);
  CAPTURE(point, n);
  ChainWorld world(kFanChain);
  lists(world, "split", "parts", {"a", "b"});
  world.start();
  world.nodes.run_all();
  killed_at(point, n, [&] { world.resume(); });
  world.nodes.run_all();
  world.resume();
  run_all_once(world, kFanJobs);
  CHECK(newest_extension(world.directory) == 1);
}

TEST_CASE("a job that has listed submits what waits for it, and nothing that people stopped",
          "[fan_out]") {
  ChainWorld world(std::string(kFanChain) + "  failed: {run: ./failed}\n");
  lists(world, "split", "parts", {"a", "b"});
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
  submit_listed(world.directory, world.services());  // as a job that was requeued does
  CHECK(world.batch.submitted.size() == 2);
  world.nodes.run_all();
  const States states = world.look();
  CHECK(states.at("work[part=b]") == Succeeded);
  CHECK(states.at("merge") == Succeeded);
  CHECK(states.at("failed") == Lost);
  CHECK(states.at("beside") == JobState::Cancelled);
}

TEST_CASE("elements that were cancelled before they were known are not submitted by a job",
          "[fan_out]") {
  ChainWorld world(kFanChain);
  lists(world, "split", "parts", {"a", "b"});
  world.start();
  world.cancel({"work"});
  world.nodes.run_all();
  world.batch.submitted.clear();
  submit_listed(world.directory, world.services());
  CHECK(world.batch.submitted.empty());
  world.resume();
  run_all_once(world, kFanJobs);
}

TEST_CASE("killed as a job submits, what it has listed is submitted once", "[fan_out]") {
  const std::string point = GENERATE("list", "extension", "batches", "intents", "submit",
                                     "accepted", "recorded", "record");
  const int n = GENERATE(1, 2);
  const bool by_job = GENERATE(false, true);
  CAPTURE(point, n, by_job);
  ChainWorld world(kFanChain);
  lists(world, "split", "parts", {"a", "b"});
  world.start();
  world.nodes.run_all();
  killed_at(point, n, [&] { submit_listed(world.directory, world.services()); });
  world.nodes.run_all();
  if (by_job) {
    submit_listed(world.directory, world.services());
  } else {
    world.resume();
  }
  run_all_once(world, kFanJobs);
}

TEST_CASE("a result that is reused lists at once, and its elements and what needs them are reused",
          "[fan_out]") {
  ChainWorld world(kFanChain);
  lists(world, "split", "parts", {"a", "b"});
  world.start();
  world.nodes.run_all();
  world.resume();
  world.nodes.run_all();
  world.look();
  world.batch.submitted.clear();
  world.start();
  CHECK(world.look()["work[part=a]"] == Cached);
  CHECK(world.look()["split"] == Cached);
  CHECK(world.look()["merge"] == Cached);
}

TEST_CASE("elements of an earlier list are not submitted before the step has listed again",
          "[fan_out]") {
  ChainWorld world(kFanChain);
  lists(world, "split", "parts", {"a", "b"});
  world.start();
  world.nodes.run_all();
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
  CHECK(world.batch.submitted.size() == 1);  // split alone
  world.nodes.run_all();
  world.resume();
  CHECK(world.states()["merge"] == Queued);  // in the place that it has kept
  world.nodes.run_all();
  world.resume();
  world.nodes.run_all();
  CHECK(world.look() == States{{"split", Succeeded},
                               {"work[part=a]", Succeeded},
                               {"work[part=c]", Succeeded},
                               {"merge", Succeeded},
                               {"beside", Succeeded}});
  CHECK(world.nodes.runs["work[part=a]"] == 2);  // of the list that it was made with
  CHECK(world.nodes.runs["merge"] == 1);
}

TEST_CASE("what another run has taken of an earlier list stays in a batch system, too",
          "[fan_out]") {
  ChainWorld world(kFanChain);
  lists(world, "split", "parts", {"a", "b"});
  const auto run_all = [&world](const std::string& failing) {
    world.start();
    world.nodes.run_all();
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

TEST_CASE("a list that makes no jobs blocks what waits for it", "[fan_out]") {
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
  ChainWorld world(kFanChain);
  lists(world, "split", "parts", {"a", "b"});
  world.start();
  world.nodes.run_all();
  world.cancel();
  world.resume();
  run_all_once(world, kFanJobs);
}
