#include "base/file.h"
#include "engine/run/chain/observation.h"
#include "tests/support/catch.h"
#include "tests/support/chain_world.h"
#include "tests/support/skip.h"
#include "tests/support/syscalls.h"

// Chains in a fake batch system: every kill and lost answer is an input. The same scenarios on real
// batch systems are in tests/slurm and tests/gridengine.

using namespace dlflow;
using namespace dlflow::test;

namespace {

constexpr const char* kChainSteps = R"(
  data:  {run: ./data}
  train: {run: ./train, needs: [data], matrix: {n: [1, 2, 3]}}
  plot:  {run: ./plot, needs: [train], matrix: {n: [1, 2, 3]}}
  best:  {run: ./best, needs: [plot]}
)";

const Names kChainJobs = {"best",      "data",       "plot[n=1]",  "plot[n=2]",
                          "plot[n=3]", "train[n=1]", "train[n=2]", "train[n=3]"};

}  // namespace

TEST_CASE("a chain is submitted as a whole and runs without dlflow's process", "[chain]") {
  ChainWorld world(kChainSteps);
  const ChainResult result = world.start();
  CHECK(world.batch.submitted == Names{"data 811", "train 812", "plot 813", "best 814"});
  CHECK(result.submitted.size() == 4);
  CHECK(world.look() == all_in(kChainJobs, Queued));
  run_all_once(world, kChainJobs);
}

TEST_CASE("batches are planned once and rendered once", "[chain]") {
  ChainWorld world(kChainSteps);
  CHECK(preview_chain(world.plan(world.profile), world.services()).size() == 4);
  CHECK(world.batch.plannings == 1);
  CHECK(world.batch.rendered == 4);
  world.start();
  CHECK(world.batch.plannings == 2);
  CHECK(world.batch.rendered == 8);
  world.nodes.pass("811", Failed);
  world.resubmit();
  CHECK(world.batch.plannings == 3);
  CHECK(world.batch.rendered == 9);
}

TEST_CASE("a run is recorded before any of its jobs is submitted", "[chain]") {
  ChainWorld world(kChainSteps);
  Plan created = world.plan(world.profile);
  create_chain(created, world.services(), world.program());
  world.directory = created.directory;
  CHECK(world.states() == all_in(kChainJobs, Planned));
  CHECK(world.batch.submitted.empty());
}

TEST_CASE("the submitted script stays beside its log, for people", "[chain]") {
  StartedChain world(kChainSteps);
  const Batch& batch = world.batch.jobs().at("811").batch;
  std::filesystem::path script = batch.log;
  CHECK(read_file(script.replace_extension(".sh")) ==
        world.batch.render(batch, world.profile).text);
}

TEST_CASE("a job may be requeued if it can save or may be tried again", "[chain]") {
  StartedChain world(R"(
  plain: {run: ./plain}
  saves: {run: ./saves, checkpoint: {newer: ckpt/*}, resources: {walltime: 1h}}
  tries: {run: ./tries, retry: {attempts: 2, on: [failure]}}
)");
  const auto may_requeue = [&](const std::string& step) {
    return world.batch.jobs().at(world.id(step)).batch.may_requeue;
  };
  CHECK_FALSE(may_requeue("plain"));
  CHECK(may_requeue("saves"));
  CHECK(may_requeue("tries"));
}

TEST_CASE("element-wise dependencies stay element-wise in the batch system", "[chain]") {
  StartedChain world(kChainSteps);
  world.nodes.pass("811", Succeeded);
  world.nodes.pass("812_1", Succeeded);
  CHECK(world.batch.is_free("813_1"));
  CHECK_FALSE(world.batch.is_free("813_0"));
  CHECK_FALSE(world.batch.is_free("814"));
}

TEST_CASE("each job is submitted once although the submission is killed between any two effects",
          "[chain]") {
  const std::string point =
      GENERATE("batches", "intents", "submit", "accepted", "recorded", "record");
  const int n = GENERATE(1, 2, 3, 4);
  CAPTURE(point, n);
  ChainWorld world(kChainSteps);
  const bool killed = killed_at(point, n, [&] { world.start(); });
  const bool once = point == "batches" || point == "intents" || point == "record";
  CHECK(killed == (!once || n == 1));
  if (world.directory.empty()) return;  // the run is unknown, and nothing was submitted
  world.nodes.run_all();                // submitted jobs do not wait for dlflow
  world.resume();
  world.nodes.run_all();
  world.resume();
  run_all_once(world, kChainJobs);
}

TEST_CASE("an intended submission or dependency is on disk before it is made", "[chain]") {
  const auto submission = is_synced_at("intents", [] { ChainWorld(kChainSteps).start(); });
  if (!submission) return skip("system calls cannot be traced");
  CHECK(*submission);
  const auto change = is_synced_at("repoint", [] {
    ChainWorld world(kChainSteps);
    world.start();
    world.nodes.pass("811", Failed);
    world.look();
    world.resubmit();
  });
  REQUIRE(change.has_value());
  CHECK(*change);
}

TEST_CASE("several chains are queried from the time of the first submission", "[chain]") {
  const auto asked = [](int second) {
    ChainQuestion question;
    question.ended = {std::to_string(second)};
    question.since = Time(std::chrono::seconds(second));
    return question;
  };
  ChainQuestion all;
  CHECK(all.is_empty());
  for (const int second : {20, 10, 30}) all.add(asked(second));
  CHECK(all.since == Time(std::chrono::seconds(10)));
  CHECK(all.ended == Names{"20", "10", "30"});
}

TEST_CASE("a lost answer is looked up, and the job is adopted", "[chain]") {
  ChainWorld world(kChainSteps);
  world.batch.lost_answers = GENERATE(1, 2, 4);
  world.start();
  run_all_once(world, kChainJobs);
}

TEST_CASE("a refusal of the batch system is reported in its words, and nothing is submitted",
          "[chain]") {
  ChainWorld world("  a: {run: ./a}\n");
  world.batch.refuses_submit = true;
  CHECK_THROWS_WITH(world.start(), Catch::StartsWith("FAKE refuses step 'a' of ") &&
                                       Catch::Contains(": invalid account\n") &&
                                       !Catch::Contains("limits: {jobs: N}"));
  world.batch.refuses_submit = false;
  world.resume();
  CHECK(world.batch.submitted.size() == 1);
}

TEST_CASE("a submission that never arrived is made again by the next call", "[chain]") {
  const int lost = GENERATE(1, 2);
  ChainWorld world(kChainSteps);
  world.batch.lost_submissions = lost;
  CHECK_THROWS_WITH(world.start(), Catch::Contains("submits only what is missing"));
  for (int call = 1; call < lost; ++call) CHECK_THROWS_AS(world.resume(), Error);
  world.nodes.run_all();
  world.resume();
  run_all_once(world, kChainJobs);
}

TEST_CASE("a failed job blocks its dependents, and resubmit repairs the chain", "[chain]") {
  StartedChain world(kChainSteps);
  world.nodes.pass("811", Succeeded);
  world.nodes.pass("812_1", Failed);
  CHECK(world.end_all() == States{{"data", Succeeded},
                                  {"train[n=1]", Succeeded},
                                  {"train[n=2]", Failed},
                                  {"train[n=3]", Succeeded},
                                  {"plot[n=1]", Succeeded},
                                  {"plot[n=2]", Blocked},
                                  {"plot[n=3]", Succeeded},
                                  {"best", Blocked}});
  const ChainResult again = world.resubmit();
  CHECK(again.kept == 5);
  CHECK(again.repointed == Names{"plot[n=2] 813_1", "best 814"});
  CHECK(world.batch.submitted.back() == "train 815");
  CHECK(world.end_all() == all_in(kChainJobs, Succeeded));
  CHECK(world.nodes.runs["train[n=2]"] == 2);
  CHECK(world.nodes.runs["best"] == 1);
}

TEST_CASE("a job whose parent is submitted again waits for its success", "[chain]") {
  StartedChain world("  a: {run: ./a}\n  b: {run: ./b, needs: [a]}\n");
  world.nodes.pass("811", Failed);
  world.look();
  CHECK(world.resubmit().repointed == Names{"b 812"});
  CHECK(world.batch.jobs().at("812").dependencies ==
        std::vector<Dependency>{{Dependency::Kind::Success, "813"}});
}

TEST_CASE("the next call completes a repair that was killed between any two effects", "[chain]") {
  const std::string point =
      GENERATE("batches", "intents", "submit", "accepted", "recorded", "repoint", "record");
  CAPTURE(point);
  StartedChain world(kChainSteps);
  world.nodes.pass("811", Failed);
  CHECK(world.look()["best"] == Blocked);
  CHECK(killed_at(point, 1, [&] { world.resubmit(); }));
  world.nodes.run_all();
  world.resubmit();
  CHECK(world.end_all() == all_in(kChainJobs, Succeeded));
  CHECK(world.nodes.overlaps.empty());
  CHECK(world.nodes.runs["data"] == 2);
  CHECK(world.nodes.runs["best"] == 1);
}

TEST_CASE("jobs that the batch system dropped are submitted anew", "[chain]") {
  StartedChain world(kChainSteps);
  world.nodes.pass("811", Failed);
  world.look();
  world.batch.forget("814");
  world.resubmit();
  CHECK(world.end_all() == all_in(kChainJobs, Succeeded));
}

TEST_CASE("cancel removes waiting jobs, and asks running jobs to end", "[chain]") {
  StartedChain world(kChainSteps);
  world.nodes.begin("811");
  const CancelResult first = world.cancel();
  CHECK(first.saving == 1);
  CHECK(first.cancelled == 7);
  CHECK(world.batch.asked_to_end == Names{"811"});
  const CancelResult second = world.cancel();
  CHECK(second.cancelled == 1);
  CHECK(world.nodes.open_ids().empty());
  world.resume();
  CHECK(world.end_all() == all_in(kChainJobs, Succeeded));
}

TEST_CASE("a begun job is asked to end, even before it has written anything", "[chain]") {
  StartedChain world(kChainSteps);
  world.batch.begin("811");
  CHECK(world.cancel({"data"}).saving == 1);
  CHECK(world.nodes.runs.empty());
  CHECK(std::filesystem::exists(world.directory / "steps/data/attempt-1/cancel"));
}

TEST_CASE("a job without a running program is not asked to save, whatever its record", "[chain]") {
  const BatchState state = GENERATE(BatchState::Held, BatchState::Requeued, BatchState::Pending,
                                    BatchState::Configuring, BatchState::Suspended);
  StartedChain world(kChainSteps);
  world.nodes.begin("811");
  world.batch.set_state("811", state);
  CHECK(world.cancel({"data"}).cancelled == 1);
  CHECK(world.batch.asked_to_end.empty());
  CHECK(world.batch.jobs().at("811").shown.state == BatchState::Cancelled);
  CHECK(world.look()["data"] == Cancelled);
}

TEST_CASE("a running job whose cancel is refused is asked to end by the next cancel", "[chain]") {
  StartedChain world(kChainSteps);
  world.nodes.begin("811");
  world.batch.refuses_cancel = true;
  CHECK_THROWS_WITH(world.cancel({"data"}), Catch::Contains("refuses to cancel 1 of 1 jobs"));
  world.batch.refuses_cancel = false;
  CHECK(world.cancel({"data"}).saving == 1);
  CHECK(world.batch.asked_to_end == Names{"811"});
}

TEST_CASE("a submission that may have been lost is cancelled as well", "[chain]") {
  ChainWorld world(kChainSteps);
  world.batch.lost_submissions = 1;
  CHECK_THROWS_AS(world.start(), Error);
  world.cancel();
  CHECK(world.look()["data"] == JobState::Cancelled);
}

TEST_CASE("a run of another cluster is not submitted, repaired or cancelled here", "[chain]") {
  StartedChain world(kChainSteps);
  write_file_atomic(world.directory / "cluster", "beta");
  const size_t submitted = world.batch.submitted.size();
  const auto refused =
      Catch::Contains("is on the cluster 'beta', but this is 'fake'; repeat this command there");
  CHECK_THROWS_WITH(world.resume(), refused);
  CHECK_THROWS_WITH(world.resubmit(), refused);
  CHECK_THROWS_WITH(world.cancel(), refused);
  CHECK_THROWS_WITH(jobs_in_queue(world.directory, world.batch), refused);
  CHECK(world.batch.submitted.size() == submitted);
  CHECK_FALSE(world.nodes.open_ids().empty());
}

TEST_CASE("a run without a recorded cluster is assumed to be on this one", "[chain]") {
  StartedChain world(kChainSteps);
  std::filesystem::remove(world.directory / "cluster");
  CHECK(jobs_in_queue(world.directory, world.batch) == 8);
  CHECK(world.look() == all_in(kChainJobs, Queued));
  CHECK(world.cancel().cancelled == 8);
}

TEST_CASE("queued jobs of a run without a folder are cancelled, and no others", "[chain]") {
  StartedChain world("  a: {run: ./a}\n  b: {run: ./b}\n");
  const std::string run = run_name(world.directory);
  world.start();
  CHECK(jobs_in_queue(world.directory, world.batch) == 2);
  CHECK(cancel_lost_chain(run, world.batch) == 2);
  CHECK(cancel_lost_chain(run, world.batch) == 0);
  CHECK(world.nodes.open_ids() == Names{"813", "814"});
  world.batch.refuses_cancel = true;
  CHECK_THROWS_WITH(cancel_lost_chain(run_name(world.directory), world.batch), "access denied");
}

TEST_CASE("a refused cancel is reported, and keeps jobs from beginning", "[chain]") {
  StartedChain world(kChainSteps);
  world.batch.refuses_cancel = true;
  CHECK_THROWS_WITH(world.cancel(), Catch::Contains("refuses to cancel 8 of 8 jobs"));
  CHECK(world.look() == all_in(kChainJobs, Queued));
  world.nodes.run_all();
  CHECK(world.nodes.runs.empty());
  CHECK(world.look()["data"] == JobState::Cancelled);
  world.batch.refuses_cancel = false;
  world.resume();
  CHECK(world.end_all() == all_in(kChainJobs, Succeeded));
}

TEST_CASE("a cancelled job never runs although the cancel is killed between any two effects",
          "[chain]") {
  const std::string point = GENERATE("withdrawn", "cancel", "record");
  CAPTURE(point);
  StartedChain world(kChainSteps);
  CHECK(killed_at(point, 1, [&] { world.cancel(); }));
  world.nodes.run_all();
  CHECK(world.nodes.runs.empty());
  world.resume();
  run_all_once(world, kChainJobs);
}

TEST_CASE("an empty queue makes no job lost", "[chain]") {
  StartedChain world(kChainSteps);
  world.nodes.begin("811");
  world.batch.empty_queues = 3;
  CHECK(world.look()["data"] == Running);
  world.resume();
  world.resubmit();
  CHECK(world.batch.submitted.size() == 4);
  CHECK(world.look()["best"] == Queued);
}

TEST_CASE("a job that is not found is lost, and runs again when the run goes on", "[chain]") {
  StartedChain world(kChainSteps);
  world.nodes.begin("811");
  world.batch.forget("811");
  CHECK(world.look()["data"] == Lost);
  CHECK(world.look()["best"] == Blocked);
}

TEST_CASE("a job presumed lost that reappears is at work, as in its record", "[chain]") {
  StartedChain world(kChainSteps);
  world.nodes.begin("811");
  world.batch.unseen = {"811"};
  CHECK(world.look()["data"] == Lost);
  CHECK(world.look()["best"] == Blocked);
  world.batch.unseen.clear();
  States states = world.look();
  CHECK(states["data"] == Running);
  CHECK(states["best"] == Queued);  // waiting jobs, at once
  run_all_once(world, kChainJobs);
}

TEST_CASE("other users' jobs with the same numbers are never cancelled, stopped or repointed",
          "[chain]") {
  StartedChain world(kChainSteps);
  world.batch.renumber("precious");
  const BatchState state = GENERATE(BatchState::Pending, BatchState::Running);
  std::vector<std::string> strangers;
  for (const auto& [id, job] : world.batch.jobs()) strangers.push_back(id);
  for (const std::string& id : strangers) {
    if (state == BatchState::Running) world.batch.begin(id);
  }
  CHECK(world.look()["data"] == Lost);
  world.cancel();
  world.cancel();  // a second one kills
  world.resubmit();
  CHECK(world.end_all() == all_in(kChainJobs, Succeeded));
  CHECK(world.batch.asked_to_end.empty());
  for (const std::string& id : strangers) {
    CHECK(world.batch.jobs().at(id).shown.state == state);
    CHECK(world.batch.jobs().at(id).dependencies.empty());
  }
}

TEST_CASE("an attempt with a successor never begins again, whoever ended it", "[chain]") {
  StartedChain world(kChainSteps);
  world.nodes.begin("811");
  world.batch.end("811", BatchState::Cancelled);  // scancel also kills the supervisor
  world.clock.advance(std::chrono::minutes(2));
  CHECK(world.look()["data"] == Cancelled);
  const std::string point = GENERATE("", "withdrawn", "submit");
  if (!point.empty()) CHECK(killed_at(point, 1, [&] { world.resume(); }));
  world.resume();
  const std::string next = world.id("data");
  CHECK(next != "811");
  world.nodes.pass(next, Succeeded);
  world.batch.requeue("811");  // scontrol requeue
  CHECK_FALSE(world.nodes.begin("811"));
  CHECK(world.end_all() == all_in(kChainJobs, Succeeded));
  CHECK(world.nodes.overlaps.empty());
  CHECK(world.nodes.repeated.empty());
}

TEST_CASE("a job whose end the queue reports wrongly is replaced by its successor", "[chain]") {
  StartedChain world(kChainSteps);
  world.nodes.begin("811");
  world.batch.lies = GENERATE(BatchState::NodeFail, BatchState::Failed, BatchState::Timeout,
                              BatchState::Cancelled);
  for (int i = 0; i < 3; ++i) {
    world.look();
    world.resubmit();
  }
  world.batch.lies.reset();
  CHECK(is_over(world.batch.jobs().at("811").shown.state));
  CHECK(world.end_all() == all_in(kChainJobs, Succeeded));
  CHECK(world.nodes.overlaps.empty());
  CHECK(world.nodes.open_ids().empty());
}

TEST_CASE("dependents of a withdrawn attempt leave the queue once the run has ended", "[chain]") {
  StartedChain world(kChainSteps);
  world.nodes.begin("811");
  world.batch.lies = BatchState::NodeFail;
  world.batch.refuses_cancel = true;
  world.look();
  world.resubmit();
  world.batch.lies.reset();
  world.batch.end("811", BatchState::NodeFail);
  CHECK(world.end_all() == all_in(kChainJobs, Succeeded));
  CHECK_FALSE(world.nodes.open_ids().empty());  // waits for 811
  world.batch.refuses_cancel = false;
  world.look();
  CHECK(world.nodes.open_ids().empty());
}

TEST_CASE("a job that the site cancels because it can never start is blocked, not cancelled",
          "[chain]") {
  StartedChain world(kChainSteps);
  world.nodes.pass("811", Failed);
  for (const std::string& id : world.batch.ids_of("train")) {
    world.batch.end(id, BatchState::Cancelled);
  }
  if (GENERATE(false, true)) {
    world.look();
  } else {
    world.resume();
  }
  const std::string directory = world.directory.string();
  for (const JobEvent& event : world.store.events(directory, "train[n=1]")) {
    CHECK(event.state != JobState::Cancelled);
  }
  CHECK(world.states()["train[n=1]"] == Blocked);
}

TEST_CASE("a failed node makes its job lost, and the waiting jobs are repaired", "[chain]") {
  StartedChain world(kChainSteps);
  world.nodes.begin("811");
  world.nodes.fail_node("811");
  CHECK(world.look()["data"] == Lost);
  world.resume();
  CHECK(world.end_all() == all_in(kChainJobs, Succeeded));
  CHECK(world.nodes.runs["data"] == 2);
  CHECK(world.nodes.runs["best"] == 1);
}

TEST_CASE("a job that requeues itself keeps its place and its dependents", "[chain]") {
  StartedChain world(kChainSteps);
  world.nodes.begin("811");
  world.nodes.requeue("811");
  CHECK(world.look()["data"] == Queued);
  CHECK(world.end_all() == all_in(kChainJobs, Succeeded));
  CHECK(world.nodes.runs["data"] == 2);
}

TEST_CASE("as many jobs as a limit allows are submitted, and the rest later", "[chain]") {
  ChainWorld world(kChainSteps);
  run_within_limit(world, 5, 4);
  run_all_once(world, kChainJobs);
}

TEST_CASE("if one of two simultaneous submissions is refused, the other is recorded and made once",
          "[chain]") {
  ChainWorld world("  many: {run: ./many, matrix: {n: [1, 2, 3]}}\n  one: {run: ./one}\n");
  world.batch.at_once = 2;
  SECTION("a refusal as too many jobs, after which the allowed number is submitted") {
    world.batch.most_jobs = 2;
    CHECK_THROWS_WITH(world.start(), Catch::Contains("too many jobs"));
  }
  SECTION("a permanent refusal") {
    world.batch.refused_step = "many";
    CHECK_THROWS_WITH(world.start(), Catch::Contains("invalid account"));
  }
  CHECK(world.states()["one"] == Queued);
  CHECK(world.batch.ids_of("one").size() == 1);
}

TEST_CASE("a batch system that does not answer changes nothing", "[chain]") {
  StartedChain world(kChainSteps);
  world.batch.silent_queries = 1;
  CHECK(world.look() == all_in(kChainJobs, Queued));
  world.batch.silent_queries = 1;
  CHECK_THROWS_AS(world.resume(), Error);
  run_all_once(world, kChainJobs);
}

TEST_CASE("an array is split if the batch system allows no gaps", "[chain]") {
  ChainWorld world(kChainSteps);
  world.batch.rules.gaps = false;
  world.start();
  world.nodes.pass("811", Succeeded);
  for (const char* id : {"812_0", "812_2"}) {
    world.nodes.pass(id, Failed);
  }
  world.end_all();
  world.resubmit();
  CHECK(world.batch.submitted ==
        Names{"data 811", "train 812", "plot 813", "best 814", "train 815", "train 816"});
  CHECK(world.end_all() == all_in(kChainJobs, Succeeded));
}

TEST_CASE("a cached job of a chain has its fingerprint on record", "[chain]") {
  StartedChain world("  a: {run: ./a}\n  b: {run: ./b, needs: [a]}\n");
  world.end_all();
  world.start();
  const States states = world.look();
  CHECK(states == States{{"a", Cached}, {"b", Cached}});
  for (const JobEvent& event : world.store.events(world.directory.string(), "a")) {
    if (event.state == Cached) CHECK_FALSE(event.fingerprint.empty());
  }
}

TEST_CASE("a node that lost jobs twice is left out of later runs", "[chain]") {
  StartedChain world("  a: {run: ./a}\n  b: {run: ./b}\n");
  for (const std::string& id : world.batch.ids_of("a")) world.nodes.begin(id);
  const auto fail = [&](const std::string& step) {
    const std::string id = world.id(step);
    if (world.batch.jobs().at(id).shown.state == BatchState::Pending) world.nodes.begin(id);
    world.batch.set_node(id, "n2");
    world.nodes.fail_node(id);
    world.look();
  };
  fail("a");
  world.resubmit();
  CHECK(world.batch.jobs().at(world.id("a")).batch.excluded_nodes.empty());
  fail("b");
  CHECK(world.resubmit().excluded_nodes == Names{"n2"});
  CHECK(world.batch.jobs().at(world.id("b")).batch.excluded_nodes == Names{"n2"});
  world.profile.exclude_nodes = 3;
  CHECK(world.start().excluded_nodes.empty());
  world.profile.exclude_nodes = 0;
  CHECK(world.start().excluded_nodes.empty());
}
