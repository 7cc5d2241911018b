#include "tests/support/catch.h"
#include "tests/support/chain_world.h"

// Chains with `pack`, in a fake batch system: several elements share a task, and each has its own
// record, state, cancel and retry.

using namespace dlflow;
using namespace dlflow::test;

namespace {

constexpr const char* kPackedSteps = R"(
  data:  {run: ./data}
  train: {run: ./train, needs: [data], matrix: {n: [1, 2, 3, 4, 5], pack: 2}, resources: {walltime: 1m}}
  plot:  {run: ./plot, needs: [train], matrix: {n: [1, 2, 3, 4, 5], pack: 2}, resources: {walltime: 1m}}
  best:  {run: ./best, needs: [plot]}
)";

const Names kPackedJobs = {"data",       "train[n=1]", "train[n=2]", "train[n=3]",
                           "train[n=4]", "train[n=5]", "plot[n=1]",  "plot[n=2]",
                           "plot[n=3]",  "plot[n=4]",  "plot[n=5]",  "best"};

constexpr const char* kPackedChild = R"(
  train: {run: ./train, matrix: {n: [1, 2, 3]}}
  plot:  {run: ./plot, needs: [train], matrix: {n: [1, 2, 3], pack: 3}, resources: {walltime: 1m}}
)";

/// Finishes `data`, and begins the first task of `train` with its first element.
void begin_first_task(ChainWorld& world) {
  world.start();
  world.nodes.pass("811", Succeeded);
  REQUIRE(world.nodes.begin("812_0"));
}

}  // namespace

TEST_CASE("packed elements share tasks, and each has its own record", "[chain][pack]") {
  ChainWorld world(kPackedSteps);
  const ChainResult result = world.start();
  CHECK(world.batch.submitted == Names{"data 811", "train 812", "plot 813", "best 814"});
  REQUIRE(result.submitted.size() == 4);
  CHECK(result.submitted[1].jobs == 5);
  CHECK(result.submitted[1].tasks == 3);
  CHECK(world.batch.jobs().at("812_2").batch.tasks == std::vector<uint32_t>{0, 1, 2});
  CHECK(world.batch.jobs().at("812_0").batch.may_requeue);
  CHECK(world.batch.jobs().at("812_0").batch.resources.walltime == std::chrono::seconds(150));
  CHECK(world.look() == all_in(kPackedJobs, Queued));
  run_all_once(world, kPackedJobs);
}

TEST_CASE("an element that is alone in its task shares no task", "[chain][pack]") {
  StartedChain world(kPackedSteps);
  const ChainServices services = world.services();
  const ChainView view = refresh_chains({&world.directory, 1}, services).front();
  CHECK(view.shared.contains("train[n=4]"));
  CHECK_FALSE(view.shared.contains("train[n=5]"));
  CHECK(view.at_work.contains("train[n=5]"));
}

TEST_CASE("the elements of a task run one after the other, and are shown so", "[chain][pack]") {
  ChainWorld world(kPackedSteps);
  begin_first_task(world);
  States states = world.look();
  CHECK(states["train[n=1]"] == Running);
  CHECK(states["train[n=2]"] == Queued);
  world.nodes.end("812_0", Succeeded);
  states = world.look();
  CHECK(states["train[n=1]"] == Succeeded);
  CHECK(states["train[n=2]"] == Running);
  CHECK_FALSE(world.batch.is_free("813_0"));
  world.nodes.end("812_0", Succeeded);
  CHECK(world.batch.is_free("813_0"));
  CHECK_FALSE(world.batch.is_free("813_1"));
  run_all_once(world, kPackedJobs);
}

TEST_CASE("each element runs once although a packed submission is killed between any two effects",
          "[chain][pack]") {
  const std::string point =
      GENERATE("batches", "intents", "submit", "accepted", "recorded", "record");
  const int n = GENERATE(1, 2, 3, 4);
  CAPTURE(point, n);
  ChainWorld world(kPackedSteps);
  killed_at(point, n, [&] { world.start(); });
  if (world.directory.empty()) return;  // the run is unknown, and nothing was submitted
  world.nodes.run_all();
  world.resume();
  world.nodes.run_all();
  world.resume();
  run_all_once(world, kPackedJobs);
}

TEST_CASE("a lost answer about packed elements is looked up, and they are kept", "[chain][pack]") {
  ChainWorld world(kPackedSteps);
  world.batch.lost_answers = GENERATE(1, 2, 4);
  world.start();
  run_all_once(world, kPackedJobs);
}

TEST_CASE("a failed element blocks only its own child, and is submitted again without the others",
          "[chain][pack]") {
  ChainWorld world(kPackedSteps);
  begin_first_task(world);
  world.nodes.end("812_0", Failed);
  States states = world.end_all();
  CHECK(states["train[n=1]"] == Failed);
  CHECK(states["train[n=2]"] == Succeeded);
  CHECK(states["plot[n=1]"] == Blocked);
  CHECK(states["plot[n=2]"] == Succeeded);
  CHECK(states["best"] == Blocked);
  CHECK(world.resubmit().kept == 9);
  CHECK(world.batch.submitted.size() == 7);  // train, plot and best again
  CHECK(world.batch.jobs().at("815_0").batch.resources.walltime == std::chrono::minutes(1));
  CHECK(world.end_all() == all_in(kPackedJobs, Succeeded));
  CHECK(world.nodes.runs["train[n=1]"] == 2);
  CHECK(world.nodes.runs["train[n=2]"] == 1);
  CHECK(world.nodes.runs["plot[n=2]"] == 1);
  CHECK(world.nodes.open_ids().empty());
}

TEST_CASE("an element is submitted again while others of its task wait or run", "[chain][pack]") {
  ChainWorld world(kPackedSteps);
  begin_first_task(world);
  world.nodes.end("812_0", Failed);  // 2 runs now
  CHECK(world.look()["plot[n=1]"] == Blocked);
  const std::string point =
      GENERATE("none", "batches", "intents", "submit", "accepted", "repoint", "recorded", "record");
  CAPTURE(point);
  killed_at(point, 1, [&] { world.resubmit(); });
  if (point != "none") world.resubmit();
  CHECK(world.id("train", 0) == "815_0");
  CHECK(world.look()["train[n=2]"] == Running);
  CHECK(world.look()["plot[n=1]"] == Queued);  // in its old task, which waits for both
  world.nodes.end("812_0", Succeeded);
  CHECK_FALSE(world.batch.is_free("813_0"));
  world.nodes.run_all();
  world.resubmit();
  CHECK(world.end_all() == all_in(kPackedJobs, Succeeded));
  CHECK(world.nodes.overlaps.empty());
  CHECK(world.nodes.repeated.empty());
  CHECK(world.nodes.runs["train[n=1]"] == 2);
  CHECK(world.nodes.runs["plot[n=1]"] == 1);
}

TEST_CASE("a requeue goes on with the element that saved and the following ones", "[chain][pack]") {
  ChainWorld world(kPackedSteps);
  begin_first_task(world);
  world.nodes.end("812_0", Succeeded);
  world.nodes.requeue("812_0");
  States states = world.look();
  CHECK(states["train[n=1]"] == Succeeded);
  CHECK(states["train[n=2]"] == Queued);
  CHECK_FALSE(world.batch.is_free("813_0"));
  CHECK(world.end_all() == all_in(kPackedJobs, Succeeded));
  CHECK(world.nodes.runs["train[n=1]"] == 1);
  CHECK(world.nodes.runs["train[n=2]"] == 2);
}

TEST_CASE("an element that is tried again has its next try after the others", "[chain][pack]") {
  ChainWorld world(kPackedSteps);
  begin_first_task(world);
  world.nodes.try_again("812_0");
  CHECK(world.nodes.job_of("812_0") == "train[n=2]");
  CHECK(world.look()["train[n=1]"] == Queued);
  CHECK(world.end_all() == all_in(kPackedJobs, Succeeded));
  CHECK(world.nodes.runs["train[n=1]"] == 2);
  CHECK(world.nodes.runs["train[n=2]"] == 1);
}

TEST_CASE("a failed node loses the running element and those without a turn", "[chain][pack]") {
  ChainWorld world(kPackedSteps);
  begin_first_task(world);
  world.nodes.fail_node("812_0");
  CHECK(world.look()["train[n=1]"] == Running);  // a record of its end may still appear
  world.clock.advance(std::chrono::minutes(1));
  States states = world.look();
  CHECK(states["train[n=1]"] == Lost);
  CHECK(states["train[n=2]"] == Lost);
  CHECK(states["train[n=3]"] == Queued);
  world.resume();
  CHECK(world.end_all() == all_in(kPackedJobs, Succeeded));
  CHECK(world.nodes.runs["train[n=1]"] == 2);
  CHECK(world.nodes.runs["train[n=2]"] == 1);
  CHECK(world.nodes.open_ids().empty());
}

TEST_CASE("an element whose success is seen late is not lost with the node of its task",
          "[chain][pack]") {
  ChainWorld world(kPackedSteps);
  begin_first_task(world);
  world.nodes.late_records = 1;
  world.nodes.end("812_0", Succeeded);
  world.nodes.fail_node("812_0");
  world.resume();
  world.nodes.show_records();
  world.clock.advance(std::chrono::minutes(1));
  world.resume();
  CHECK(world.end_all() == all_in(kPackedJobs, Succeeded));
  CHECK(world.nodes.repeated.empty());
  CHECK(world.nodes.runs["train[n=1]"] == 1);
}

TEST_CASE("a queued element is cancelled without the others", "[chain][pack]") {
  StartedChain world(kPackedSteps);
  const std::string point = GENERATE("none", "withdrawn", "cancel", "record");
  CAPTURE(point);
  killed_at(point, 1, [&] { world.cancel({"train[n=1]"}); });
  const CancelResult result = point == "none" ? CancelResult{1, 0} : world.cancel({"train[n=1]"});
  CHECK(result.saving == 0);
  CHECK(world.look()["train[n=1]"] == JobState::Cancelled);
  CHECK(world.look()["train[n=2]"] == Queued);
  CHECK(world.batch.jobs().at("812_0").shown.state == BatchState::Pending);
  const States states = world.end_all();
  CHECK(states.at("train[n=1]") == JobState::Cancelled);
  CHECK(states.at("train[n=2]") == Succeeded);
  CHECK(states.at("plot[n=1]") == Blocked);
  CHECK(states.at("plot[n=2]") == Succeeded);
  CHECK_FALSE(world.nodes.runs.contains("train[n=1]"));
  world.resubmit();
  run_all_once(world, kPackedJobs);
}

TEST_CASE(
    "an element that begins during its cancellation is asked to end, not recorded as cancelled",
    "[chain][pack]") {
  StartedChain world(kPackedSteps);
  world.nodes.pass("811", Succeeded);
  world.batch.on_queue = [&] { world.nodes.begin("812_0"); };
  const CancelResult result = world.cancel({"train[n=1]"});
  CHECK(result.cancelled == 0);
  CHECK(result.saving == 1);
  CHECK(world.look()["train[n=1]"] == Running);
}

TEST_CASE("an element whose cancel is refused is asked to end by the next cancel",
          "[chain][pack]") {
  ChainWorld world(kPackedSteps);
  begin_first_task(world);
  const std::filesystem::path attempt = world.directory / "steps/train/n=1/attempt-1";
  REQUIRE(claim_pass(attempt, 1, "812_0"));
  const auto refuse = [&] {
    world.batch.refuses_cancel = true;
    CHECK_THROWS_WITH(world.cancel({"train[n=1]"}),
                      Catch::Contains("refuses to cancel 1 of 1 jobs"));
    world.batch.refuses_cancel = false;
  };
  refuse();
  CHECK_FALSE(std::filesystem::exists(attempt / "cancel"));
  CHECK(world.cancel({"train[n=1]"}).saving == 1);
  refuse();  // to kill it, as on a second cancel
  CHECK(std::filesystem::exists(attempt / "cancel"));
}

TEST_CASE("a task leaves the queue when all its elements are cancelled", "[chain][pack]") {
  StartedChain world(kPackedSteps);
  world.cancel({"train[n=1]"});
  CHECK(world.batch.jobs().at("812_0").shown.state == BatchState::Pending);
  world.cancel({"train[n=2]"});
  CHECK(world.batch.jobs().at("812_0").shown.state == BatchState::Cancelled);
  CHECK(world.batch.jobs().at("812_1").shown.state == BatchState::Pending);
  CHECK(world.cancel().cancelled == 10);
  CHECK(world.nodes.open_ids().empty());
  world.resume();
  run_all_once(world, kPackedJobs);
}

TEST_CASE("the running element is asked to end, and the others go on", "[chain][pack]") {
  ChainWorld world(kPackedSteps);
  begin_first_task(world);
  REQUIRE(claim_pass(world.directory / "steps/train/n=1/attempt-1", 1, "812_0"));
  const CancelResult result = world.cancel({"train[n=1]"});
  CHECK(result.saving == 1);
  CHECK(result.cancelled == 0);
  CHECK(world.batch.asked_to_end == Names{"812_0"});
  world.nodes.end("812_0", JobState::Cancelled);
  CHECK(world.nodes.job_of("812_0") == "train[n=2]");
  world.cancel({"train[n=1]"});  // a second time: it has ended
  CHECK(world.batch.asked_to_end.size() == 1);
  const States states = world.end_all();
  CHECK(states.at("train[n=1]") == JobState::Cancelled);
  CHECK(states.at("train[n=2]") == Succeeded);
}

TEST_CASE("a waiting element of a running task is cancelled by that task", "[chain][pack]") {
  ChainWorld world(kPackedSteps);
  begin_first_task(world);
  const CancelResult result = world.cancel({"train[n=2]"});
  CHECK(result.saving == 1);
  CHECK(world.look()["train[n=2]"] == Queued);
  CHECK(world.look()["train[n=1]"] == Running);
  const States states = world.end_all();
  CHECK(states.at("train[n=1]") == Succeeded);
  CHECK(states.at("train[n=2]") == JobState::Cancelled);
  CHECK_FALSE(world.nodes.runs.contains("train[n=2]"));
  world.resubmit();
  run_all_once(world, kPackedJobs);
}

TEST_CASE("only the running element is told that its task ends, and only once", "[chain][pack]") {
  ChainWorld world(kPackedSteps);
  begin_first_task(world);
  REQUIRE(claim_pass(world.directory / "steps/train/n=1/attempt-1", 1, "812_0"));
  const CancelResult result = world.cancel();
  CHECK(result.saving == 2);
  CHECK(result.cancelled == 9);
  CHECK(world.batch.asked_to_end == Names{"812_0"});
  world.nodes.end("812_0", JobState::Cancelled);
  CHECK(world.look()["train[n=2]"] == JobState::Cancelled);
  CHECK(world.nodes.open_ids().empty());
  world.resume();
  CHECK(world.end_all() == all_in(kPackedJobs, Succeeded));
}

TEST_CASE("an element that ended well in a later cancelled task has succeeded", "[chain][pack]") {
  ChainWorld world(kPackedSteps);
  begin_first_task(world);
  world.nodes.late_records = 1;
  world.nodes.end("812_0", Succeeded);
  world.nodes.requeue("812_0");  // for its second element
  world.cancel();
  CHECK(world.look()["train[n=1]"] == JobState::Cancelled);
  world.nodes.show_records();
  CHECK(world.look()["train[n=1]"] == Succeeded);
  CHECK(world.look()["train[n=2]"] == JobState::Cancelled);
  world.resubmit();
  CHECK(world.end_all() == all_in(kPackedJobs, Succeeded));
  CHECK(world.nodes.runs["train[n=1]"] == 1);
}

TEST_CASE("a refused cancel of packed elements keeps them from beginning", "[chain][pack]") {
  StartedChain world(kPackedSteps);
  world.batch.refuses_cancel = true;
  CHECK_THROWS_WITH(world.cancel(), Catch::Contains("refuses to cancel 12 of 12 jobs"));
  world.nodes.run_all();
  CHECK(world.nodes.runs.empty());
  world.batch.refuses_cancel = false;
  world.resume();
  run_all_once(world, kPackedJobs);
}

TEST_CASE("a packed child of an unpacked step waits for ends, and runs its possible elements",
          "[chain][pack]") {
  StartedChain world(kPackedChild);
  world.nodes.pass("811_1", Failed);
  CHECK_FALSE(world.batch.is_free("812_0"));
  CHECK(world.look()["plot[n=2]"] == Blocked);
  const bool early = GENERATE(true, false);
  if (early) {  // the task is still in the queue, and also waits for the new job
    CHECK(world.resubmit().repointed ==
          Names{"plot[n=1] 812_0", "plot[n=2] 812_0", "plot[n=3] 812_0"});
    world.nodes.begin("813_1");
    CHECK_FALSE(world.batch.is_free("812_0"));
    world.nodes.end("813_1", Failed);
  }
  States states = world.end_all();
  CHECK(states["plot[n=1]"] == Succeeded);
  CHECK(states["plot[n=2]"] == Blocked);
  CHECK(states["plot[n=3]"] == Succeeded);
  world.resubmit();
  states = world.end_all();
  CHECK(states["plot[n=2]"] == Succeeded);
  CHECK(world.nodes.runs["plot[n=1]"] == 1);
  CHECK(world.nodes.open_ids().empty());
}

TEST_CASE(
    "an element that was blocked in its task gets another task, although that one waits for others",
    "[chain][pack]") {
  StartedChain world(kPackedChild);
  for (const char* id : {"811_0", "811_1", "811_2"}) {
    REQUIRE(world.nodes.begin(id));
    world.nodes.end(id, id == std::string("811_1") ? Failed : Succeeded);
  }
  REQUIRE(world.nodes.begin("812_0"));
  world.nodes.end("812_0", Succeeded);  // next is [n=3]
  world.nodes.requeue("812_0");
  CHECK(world.look()["plot[n=2]"] == Blocked);
  world.resubmit();
  CHECK(world.end_all()["plot[n=2]"] == Succeeded);
  CHECK(world.state() == RunState::Succeeded);
}

TEST_CASE("a kill frees no job that waits for a packed element to run again", "[chain][pack]") {
  StartedChain world(R"(
  train: {run: ./train, matrix: {n: [1, 2], pack: 2}, resources: {walltime: 1m}}
  best:  {run: ./best, needs: [train]}
)");
  REQUIRE(world.nodes.begin("811_0"));
  world.nodes.end("811_0", Failed);
  CHECK(killed_at("repoint", 1, [&] { world.resubmit(); }));
  world.resume();
  CHECK_FALSE(world.batch.is_free("812"));
  world.nodes.run_all();
  world.resume();
  world.nodes.run_all();
  CHECK(world.look() == all_in({"train[n=1]", "train[n=2]", "best"}, Succeeded));
}

TEST_CASE("packed elements count as their task in the limit of jobs", "[chain][pack]") {
  ChainWorld world(kPackedSteps);
  world.profile.limits.jobs = 3;
  CHECK(world.start().held_back == 7);  // one task of train, plot, best
  CHECK(world.batch.jobs().size() == 3);
  for (int calls = 0; calls < 4; ++calls) {
    world.nodes.run_all();
    world.resume();
  }
  run_all_once(world, kPackedJobs);
}

TEST_CASE("a packed array that is refused as too many is halved by its tasks", "[chain][pack]") {
  ChainWorld world(kPackedSteps);
  run_within_limit(world, 2, 8);
  run_all_once(world, kPackedJobs);
}

TEST_CASE("listed elements are packed", "[chain][pack][fan_out]") {
  ChainWorld world(R"(
  split: {run: ./split, outputs: {parts: p.json}}
  work: {matrix: {part: "${{ steps.split.outputs.parts }}", pack: 2}, run: ./work, resources: {walltime: 1m}}
)");
  const Json list = {"a", "b", "c"};
  world.nodes.outputs["split"] = {{"parts", {{"value", list}, {"sha256", list.dump()}}}};
  world.start();
  world.nodes.run_all();
  world.resume();
  CHECK(world.batch.submitted == Names{"split 811", "work 812"});
  CHECK(world.batch.jobs().size() == 3);
  CHECK(world.end_all() == States{{"split", Succeeded},
                                  {"work[part=a]", Succeeded},
                                  {"work[part=b]", Succeeded},
                                  {"work[part=c]", Succeeded}});
}

TEST_CASE("results are reused whether or not their elements were packed", "[chain][pack]") {
  const int first = GENERATE(1, 3);
  const auto text = [](int pack) {
    return "  a: {run: ./a, matrix: {n: [1, 2, 3], pack: " + std::to_string(pack) +
           "}, resources: {walltime: 1m}}\n";
  };
  ChainWorld world(text(first));
  world.start();
  world.end_all();
  world.rewrite(text(4 - first));
  world.start();
  CHECK(world.look() == States{{"a[n=1]", Cached}, {"a[n=2]", Cached}, {"a[n=3]", Cached}});
}
