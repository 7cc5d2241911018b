#include <csignal>

#include "base/file.h"
#include "base/parse_json.h"
#include "engine/plan/job.h"
#include "engine/plan/run_directory.h"
#include "tests/support/catch.h"
#include "tests/support/chain_world.h"

// `allow_failure:` and `if: always()`, on this machine and in a fake batch system.

using namespace dlflow;
using namespace dlflow::test;

namespace {

/// A sweep with allowed failures, a child of each element, and the selection.
constexpr const char* kSweep = R"(
  train:
    run: ./train
    matrix: {n: [0, 1, 2]}
    allow_failure: true
    outputs: {model: m}
  eval:
    run: [./eval, "${{ steps.train.outputs.model }}"]
    matrix: {n: [0, 1, 2]}
    outputs: {score: s}
  best:
    run: [./best, "${{ join(steps.eval.outputs.score) }}"]
)";

constexpr const char* kCleanup = R"(
  data:    {run: ./data}
  train:   {run: ./train, needs: [data]}
  report:  {run: ./report, needs: [train]}
  cleanup: {run: ./clean, needs: [train], if: "${{ always() }}"}
)";

}  // namespace

TEST_CASE("a sweep with allowed failures goes on, and selects among the successful elements",
          "[allow_failure]") {
  TestRun run(kSweep);
  run.backend.fail("train[n=1]");
  CHECK(run.start().state == RunState::Succeeded);
  CHECK(run.states() == States{{"train[n=0]", Succeeded},
                               {"train[n=1]", Failed},
                               {"train[n=2]", Succeeded},
                               {"eval[n=0]", Succeeded},
                               {"eval[n=1]", Skipped},
                               {"eval[n=2]", Succeeded},
                               {"best", Succeeded}});
  CHECK(run.state() == RunState::Succeeded);
}

TEST_CASE("a job with nothing left to select from is blocked, and its run has failed",
          "[allow_failure]") {
  TestRun run(R"(
  train: {run: ./train, matrix: {n: [0, 1]}, allow_failure: true, outputs: {model: m}}
  best: {run: [./best, "${{ join(steps.train.outputs.model) }}"]}
  note: {run: ./note, needs: [train]}
)");
  run.backend.fail("train[n=0]");
  run.backend.fail("train[n=1]");
  CHECK(run.start().state == RunState::Failed);
  CHECK(run.states() == States{{"train[n=0]", Failed},
                               {"train[n=1]", Failed},
                               {"best", Blocked},
                               {"note", Succeeded}});
  run.resubmit();  // an allowed failure that blocks a job runs again by itself
  CHECK(run.state() == RunState::Succeeded);
  CHECK(run.attempt("train[n=1]") == 2);
  CHECK(run.attempt("note") == 2);  // it had run after train failed
}

TEST_CASE("a step that passes on the output of an allowed failure is skipped, under any key",
          "[allow_failure]") {
  TestRun run(R"(
  train: {run: ./train, allow_failure: true, outputs: {model: m}}
  with: {run: ./eval, with: {model: "${{ steps.train.outputs.model }}"}}
  env: {run: ./eval, env: {MODEL: "${{ steps.train.outputs.model }}"}}
  only_waits: {run: ./note, needs: [train]}
)");
  run.backend.fail("train");
  run.start();
  CHECK(run.states() ==
        States{{"train", Failed}, {"with", Skipped}, {"env", Skipped}, {"only_waits", Succeeded}});
}

TEST_CASE("a job gets the list of its failed parents", "[allow_failure]") {
  TestRun run(R"(
  good: {run: ./good}
  bad: {run: ./bad, allow_failure: true}
  after: {run: ./after, needs: [good, bad]}
)");
  run.backend.fail("bad");
  run.start();
  const auto attempt = attempt_directory(run.directory / "steps" / "after", 1);
  std::map<std::string, bool> failed;
  for (const ParentRef& parent :
       job_spec_from_json(parse_json(read_file(attempt / "job.json"))).parents) {
    failed[parent.step] = parent.failed;
  }
  CHECK(failed == std::map<std::string, bool>{{"good", false}, {"bad", true}});
}

TEST_CASE("an allowed failure is tried again by name, and its dependents run again",
          "[allow_failure]") {
  TestRun run(kSweep);
  run.backend.fail("train[n=1]");
  run.start();
  run.resubmit();
  CHECK(run.attempt("train[n=1]") == 1);
  run.resubmit({"train"});
  CHECK(run.attempt("train[n=1]") == 2);
  CHECK(run.attempt("train[n=0]") == 1);
  CHECK(run.attempt("eval[n=1]") == 1);
  CHECK(run.attempt("eval[n=0]") == 1);
  CHECK(run.attempt("best") == 2);
  for (const auto& [job, state] : run.states()) CHECK(state == Succeeded);
}

TEST_CASE("a job that runs again after more parents succeeded uses no earlier checkpoint",
          "[allow_failure]") {
  TestRun run(R"(
  a: {run: ./a, matrix: {i: [1, 2]}, allow_failure: true, outputs: {x: x}}
  train: {run: [./train, "${{ join(steps.a.outputs.x) }}"], checkpoint: {}}
)");
  run.backend.fail("a[i=2]");
  const JobState end = GENERATE(Succeeded, Failed, JobState::Cancelled);
  run.backend.ends["train"].push_back(end);
  run.start();
  const std::filesystem::path train = run.directory / "steps/train";
  make_directories(train / "checkpoints/step-3");
  run.resubmit({"a[i=2]"});
  CHECK_FALSE(std::filesystem::exists(train / "checkpoints"));
  CHECK(std::filesystem::exists(train / "attempt-1/checkpoints/step-3"));
  CHECK(run.attempt("train") == (end == JobState::Cancelled ? 1 : 2));
}

TEST_CASE("an allowed failure is tried again according to `retry:` before it counts",
          "[allow_failure]") {
  TestRun run(R"(
  train: {run: ./train, allow_failure: true, retry: {attempts: 2, on: [failure]}}
  after: {run: ./after, needs: [train]}
)");
  run.backend.fail("train");
  run.start();
  CHECK(run.attempt("train") == 2);
  CHECK(run.states() == States{{"train", Succeeded}, {"after", Succeeded}});
}

TEST_CASE("an allowed failure does not free dependents of another failure", "[allow_failure]") {
  TestRun run(R"(
  data: {run: ./data}
  train: {run: ./train, needs: [data], allow_failure: true}
  after: {run: ./after, needs: [train]}
)");
  run.backend.fail("data");
  CHECK(run.start().state == RunState::Failed);
  CHECK(run.states() == States{{"data", Failed}, {"train", Blocked}, {"after", Blocked}});
}

TEST_CASE("a failed element stops neither others nor their dependents", "[allow_failure]") {
  TestRun run(R"(
  train: {run: ./train, matrix: {n: [0, 1, 2], max_parallel: 1}}
  eval: {run: ./eval, matrix: {n: [0, 1, 2]}, needs: [train]}
  best: {run: ./best, needs: [eval]}
)");
  run.backend.fail("train[n=0]");
  CHECK(run.start().state == RunState::Failed);
  CHECK(run.states() == States{{"train[n=0]", Failed},
                               {"train[n=1]", Succeeded},
                               {"train[n=2]", Succeeded},
                               {"eval[n=0]", Blocked},
                               {"eval[n=1]", Succeeded},
                               {"eval[n=2]", Succeeded},
                               {"best", Blocked}});
}

TEST_CASE("a step with always() runs after failed, successful and blocked parents", "[always]") {
  const std::string failing = GENERATE("", "train", "data");
  TestRun run(kCleanup);
  if (!failing.empty()) run.backend.fail(failing);
  CHECK(run.start().state == (failing.empty() ? RunState::Succeeded : RunState::Failed));
  CHECK(run.states().at("cleanup") == Succeeded);
  CHECK(run.states().at("report") == (failing.empty() ? Succeeded : Blocked));
  CHECK(std::count(run.backend.submitted.begin(), run.backend.submitted.end(), "cleanup") == 1);
  if (failing.empty()) return;
  run.resubmit();
  CHECK(run.state() == RunState::Succeeded);
  CHECK(run.attempt("cleanup") == 2);  // also after the repair
}

TEST_CASE("a step with always() runs although a failure keeps its parents from starting",
          "[always]") {
  const bool keep_going = GENERATE(false, true);
  TestRun run(R"(
  bad:   {run: ./bad}
  slow:  {run: ./slow}
  mid:   {run: ./mid, needs: [slow]}
  last:  {run: ./last, needs: [mid]}
  other: {run: ./other, needs: [slow]}
  clean: {run: ./clean, needs: [bad, mid], if: "${{ always() }}"}
)");
  run.backend.fail("bad");
  CHECK(run.start({.keep_going = keep_going}).state == RunState::Failed);
  CHECK(run.states() == States{{"bad", Failed},
                               {"slow", Succeeded},
                               {"mid", keep_going ? Succeeded : Blocked},
                               {"last", keep_going ? Succeeded : Blocked},
                               {"other", keep_going ? Succeeded : Planned},
                               {"clean", Succeeded}});
  run.resubmit();
  for (const auto& [job, state] : run.states()) CHECK(state == Succeeded);
  CHECK(run.attempt("clean") == 2);
}

TEST_CASE("a step with always() runs although a failure keeps a parent's next try from starting",
          "[always]") {
  TestRun run(R"(
  flaky: {run: ./flaky, retry: {attempts: 2, on: [failure]}}
  bad:   {run: ./bad}
  clean: {run: ./clean, needs: [flaky], if: "${{ always() }}"}
)");
  run.backend.fail("flaky");
  run.backend.fail("bad");
  CHECK(run.start().state == RunState::Failed);
  CHECK(run.states() == States{{"flaky", Blocked}, {"bad", Failed}, {"clean", Succeeded}});
}

TEST_CASE("a step with always() is tried again according to `retry:`, even after failures",
          "[always]") {
  TestRun run(R"(
  work:  {run: ./work}
  clean: {run: ./clean, needs: [work], if: "${{ always() }}", retry: {attempts: 2, on: [failure]}}
)");
  run.backend.fail("work");
  run.backend.fail("clean");
  run.start();
  CHECK(run.states() == States{{"work", Failed}, {"clean", Succeeded}});
  CHECK(run.attempt("clean") == 2);
}

TEST_CASE("a step with always() is not reused", "[always]") {
  TestRun run(kCleanup);
  run.start();
  run.backend.submitted.clear();
  run.start();
  CHECK(run.backend.submitted == Names{"cleanup"});
}

TEST_CASE("a stopped run starts no step with always(), but the resumed one does", "[always]") {
  TestRun run(kCleanup);
  run.observer.on_event = [](const JobEvent& event) {
    if (event.job == "data" && event.state == Running) std::raise(SIGTERM);
  };
  CHECK(run.start().state == RunState::Cancelled);
  CHECK(run.backend.submitted == Names{"data"});
  run.observer.on_event = {};
  run.resume();
  for (const auto& [job, state] : run.states()) CHECK(state == Succeeded);
}

TEST_CASE("a stopped run leaves the parents of a step with always() planned", "[always]") {
  TestRun run(R"(
  data:    {run: ./data}
  other:   {run: ./other}
  train:   {run: ./train, needs: [other]}
  cleanup: {run: ./clean, needs: [train], if: "${{ always() }}"}
)");
  run.backend.fail("data");
  run.observer.on_event = [](const JobEvent& event) {
    if (event.job == "other" && event.state == Running) std::raise(SIGTERM);
  };
  run.start();
  CHECK(run.states()["other"] == JobState::Cancelled);
  CHECK(run.states()["train"] == Planned);
  CHECK(run.states()["cleanup"] == Planned);
}

TEST_CASE("an engine killed after a failure leaves the cleanup to the next one", "[always]") {
  for (const char* point : {"record", "end", "ingest", "intent", "spawn"}) {
    for (int n = 1; n < 12; ++n) {
      TestRun run(kCleanup);
      run.backend.fail("train");
      const bool killed = killed_at(point, n, [&] { run.start(); });
      if (!killed) break;
      run.resume();
      INFO(point << " " << n);
      CHECK(run.states().at("cleanup") == Succeeded);
      CHECK(run.states().at("report") == Blocked);
    }
  }
}

TEST_CASE("in a batch system dependents of an allowed failure start by themselves",
          "[allow_failure][chain]") {
  StartedChain world(kSweep);
  CHECK(world.batch.submitted ==
        Names{"train 811", "eval 812", "eval 813", "eval 814", "best 815"});
  for (int task = 0; task < 3; ++task) {
    const std::string id = "811_" + std::to_string(task);
    world.nodes.pass(id, task == 1 ? Failed : Succeeded);
  }
  CHECK(world.batch.is_free("813_1"));  // it starts, finds no input, and is skipped
  CHECK_FALSE(world.nodes.begin("813_1"));
  CHECK(world.end_all().at("eval[n=1]") == Skipped);
  CHECK(world.look().at("best") == Succeeded);
  CHECK(world.state() == RunState::Succeeded);
  world.resubmit({"train"});
  CHECK(world.end_all().at("train[n=1]") == Succeeded);
  CHECK(world.look().at("eval[n=1]") == Succeeded);
  CHECK(world.nodes.runs["best"] == 2);
}

TEST_CASE("in a batch system the selection waits for the end of a sweep, even with a failed node",
          "[allow_failure][chain]") {
  StartedChain world(R"(
  train: {run: ./train, matrix: {n: [0, 1]}, allow_failure: true, outputs: {model: m}}
  best: {run: [./best, "${{ join(steps.train.outputs.model) }}"]}
)");
  world.nodes.begin("811_0");
  world.nodes.begin("811_1");
  world.nodes.fail_node("811_0");
  CHECK_FALSE(world.batch.is_free("812"));
  world.nodes.end("811_1", Succeeded);
  CHECK(world.batch.is_free("812"));
  CHECK(world.end_all() ==
        States{{"train[n=0]", Lost}, {"train[n=1]", Succeeded}, {"best", Succeeded}});
  CHECK(world.state() == RunState::Succeeded);
}

TEST_CASE("in a batch system an element that the system ends does not hold up its dependents",
          "[allow_failure][chain]") {
  StartedChain world(kSweep);
  world.nodes.begin("811_1");
  world.nodes.fail_node("811_1");
  CHECK(world.end_all() == States{{"train[n=0]", Succeeded},
                                  {"train[n=1]", Lost},
                                  {"train[n=2]", Succeeded},
                                  {"eval[n=0]", Succeeded},
                                  {"eval[n=1]", Skipped},
                                  {"eval[n=2]", Succeeded},
                                  {"best", Succeeded}});
}

TEST_CASE("in a batch system a job runs without an allowed parent that left no record",
          "[allow_failure][chain]") {
  StartedChain world(R"(
  a: {run: ./a, allow_failure: true, retry: {attempts: 1, on: [failure]}}
  b: {run: ./b, needs: [a]}
)");
  world.nodes.fail_node("811");
  CHECK(world.end_all() == States{{"a", Lost}, {"b", Blocked}});
  world.resubmit();
  CHECK(world.end_all() == States{{"a", Lost}, {"b", Succeeded}});
  CHECK(world.state() == RunState::Succeeded);
}

TEST_CASE("in a batch system queued dependents wait for an allowed failure that runs again",
          "[allow_failure][chain]") {
  StartedChain world("  a: {run: ./a, allow_failure: true}\n  b: {run: ./b, needs: [a]}\n");
  world.nodes.pass("811", Failed);
  REQUIRE(world.batch.is_free("812"));
  if (GENERATE(false, true)) {
    world.nodes.begin("812");
    CHECK(world.resubmit({"a"}).too_early == Names{"b"});
    return;
  }
  const ChainResult again = world.resubmit({"a"});
  CHECK(again.repointed == Names{"b 812"});
  CHECK(again.too_early.empty());
  CHECK_FALSE(world.batch.is_free("812"));
  CHECK(world.end_all() == States{{"a", Succeeded}, {"b", Succeeded}});
  CHECK(world.batch.submitted == Names{"a 811", "b 812", "a 813"});
  CHECK(world.nodes.runs["b"] == 1);
}

TEST_CASE("in a batch system a cleanup runs after any end of the chain", "[always][chain]") {
  const std::string failing = GENERATE("", "train", "data");
  StartedChain world(kCleanup);
  for (const char* step : {"data", "train"}) {
    const std::string id = world.id(step);
    if (is_over(world.batch.jobs().at(id).shown.state)) continue;  // it can never start
    world.nodes.pass(id, failing == step ? Failed : Succeeded);
  }
  CHECK(world.end_all().at("cleanup") == Succeeded);
  CHECK(world.look().at("report") == (failing.empty() ? Succeeded : Blocked));
  CHECK(world.nodes.runs["report"] == (failing.empty() ? 1 : 0));
  if (failing.empty()) return;
  world.resubmit();
  world.nodes.run_all();
  for (const auto& [job, state] : world.look()) CHECK(state == Succeeded);
  CHECK(world.nodes.runs["cleanup"] == 2);
  CHECK(world.nodes.overlaps.empty());
}

TEST_CASE("in a batch system no job runs on an old result whose rerun failed",
          "[allow_failure][chain]") {
  StartedChain world(R"(
  a: {run: ./a, allow_failure: true, outputs: {x: x}}
  b: {run: ./b, needs: [a], allow_failure: true, outputs: {y: y}}
  c: {run: [./c, "${{ steps.b.outputs.y }}"]}
)");
  world.nodes.pass("811", Failed);
  world.nodes.run_all();
  REQUIRE(world.look() == States{{"a", Failed}, {"b", Succeeded}, {"c", Succeeded}});
  world.resubmit({"a"});
  CHECK_FALSE(std::filesystem::is_symlink(world.directory / "steps/b/outputs"));
  world.nodes.pass(world.id("a"), Succeeded);
  world.nodes.pass(world.id("b"), Failed);
  CHECK(world.end_all() == States{{"a", Succeeded}, {"b", Failed}, {"c", Skipped}});
  CHECK(world.nodes.runs["c"] == 1);
}

TEST_CASE("a step with always() overtakes jobs that a failure keeps from starting", "[always]") {
  TestRun run(R"(
  train: {run: ./train}
  other: {run: ./other}
  cleanup: {run: ./clean, needs: [train], if: "${{ always() }}"}
)");
  run.backend.cores = 1;
  run.backend.fail("train");
  CHECK(run.start().state == RunState::Failed);
  CHECK(run.backend.submitted == Names{"train", "cleanup"});
  CHECK(run.states().at("other") == Planned);
}

TEST_CASE("a resubmitted job is told of its parent's failure if no record shows it",
          "[allow_failure][chain]") {
  const bool by_cluster = GENERATE(true, false);
  StartedChain world("  a: {run: ./a, allow_failure: true}\n  b: {run: ./b, needs: [a]}\n");
  CHECK_FALSE(world.parent_of("b").failed);
  REQUIRE(world.nodes.begin("811"));
  if (by_cluster) {
    world.batch.end("811", BatchState::Timeout);
  } else {
    world.nodes.end("811", Failed);
  }
  world.clock.advance(std::chrono::minutes(5));  // longer than a record may be late
  CHECK(world.look()["a"] == (by_cluster ? TimedOut : Failed));
  world.batch.end("812", BatchState::Failed, 1);
  world.clock.advance(std::chrono::minutes(5));
  CHECK(world.look()["b"] == Failed);
  world.resubmit({"b"});
  CHECK(world.id("b") == "813");
  CHECK(world.parent_of("b").failed == by_cluster);
  CHECK_FALSE(world.parent_of("b").skipped);
}

TEST_CASE("a result reused beside an allowed failure is computed again once that job succeeds",
          "[allow_failure]") {
  TestRun run(R"(
  a: {run: ./a, matrix: {i: [1, 2]}, allow_failure: true, outputs: {x: x}}
  b: {run: [./b, "${{ join(steps.a.outputs.x) }}"]}
)");
  run.backend.fail("a[i=1]");
  run.start();
  CHECK(run.states() == States{{"a[i=1]", Failed}, {"a[i=2]", Succeeded}, {"b", Succeeded}});
  run.backend.fail("a[i=1]");
  run.start();
  CHECK(run.states() == States{{"a[i=1]", Failed}, {"a[i=2]", Cached}, {"b", Cached}});
  run.resubmit({"a[i=1]"});
  CHECK(run.states() == States{{"a[i=1]", Succeeded}, {"a[i=2]", Cached}, {"b", Succeeded}});
  CHECK(run.backend.submitted.back() == "b");
}

TEST_CASE("a waiting job with a checkpoint begins anew after its parent runs again",
          "[allow_failure][chain]") {
  StartedChain world(
      "  a: {run: ./a, allow_failure: true}\n  b: {run: ./b, needs: [a], checkpoint: {}}\n");
  REQUIRE(world.nodes.begin("811"));
  world.nodes.end("811", Failed);
  REQUIRE(world.nodes.begin("812"));
  const std::filesystem::path saved = job_directory(world.directory, "b") / "checkpoints";
  make_directories(saved);
  world.nodes.requeue("812");
  world.batch.refuses_cancel = GENERATE(false, true);
  world.resubmit({"a"});
  CHECK(world.batch.submitted == Names{"a 811", "b 812", "a 813", "b 814"});
  if (world.batch.refuses_cancel) {
    CHECK_FALSE(world.nodes.begin("812"));  // its program would run beside that of 814
  } else {
    CHECK(world.batch.jobs().at("812").shown.state == BatchState::Cancelled);
  }
  CHECK_FALSE(std::filesystem::exists(saved));
  CHECK_FALSE(world.batch.is_free("814"));
  CHECK(world.end_all() == States{{"a", Succeeded}, {"b", Succeeded}});
}
