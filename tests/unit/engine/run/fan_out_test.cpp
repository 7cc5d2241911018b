#include <algorithm>

#include "engine/plan/extension.h"
#include "engine/run/again.h"
#include "engine/run/restore.h"
#include "tests/support/catch.h"
#include "tests/support/chain_world.h"
#include "tests/support/skip.h"
#include "tests/support/syscalls.h"

using namespace dlflow;
using namespace dlflow::test;

namespace {

/// `step` will leave this list.
void lists(TestRun& run, const std::string& step, const std::string& output, const Json& list) {
  run.backend.outputs[step] = {{output, {{"value", list}, {"sha256", list.dump()}}}};
}

/// A run whose `split` will list a and b.
struct FanRun : TestRun {
  /// \param before  further steps.
  explicit FanRun(const std::string& before = "") : TestRun(before + kFanOut) {
    lists(*this, "split", "parts", {"a", "b"});
  }
};

}  // namespace

TEST_CASE("a listed step runs each element once, and then its dependents", "[fan_out]") {
  FanRun run;
  CHECK(run.start().state == RunState::Succeeded);
  CHECK(run.backend.submitted == Names{"split", "work[part=a]", "work[part=b]", "merge"});
  CHECK(run.states() == run.observer.states);
}

TEST_CASE("all descendants of a job follow it, at any distance", "[fan_out]") {
  TestRun run(R"(
  a: {run: ./a}
  other: {run: ./other}
  b: {run: ./b, needs: [a]}
  c: {run: ./c, needs: [b]}
)");
  const Plan plan = run.plan();
  const auto number = [&](const JobName& name) {
    const auto found = std::find_if(plan.jobs.begin(), plan.jobs.end(),
                                    [&](const PlannedJob& job) { return job.name == name; });
    return uint32_t(found - plan.jobs.begin());
  };
  CHECK(descendants_of(plan, number("a")) == std::vector<uint32_t>{number("b"), number("c")});
  CHECK(descendants_of(plan, number("c")).empty());
}

TEST_CASE("a run whose engine is killed while it lays out a list goes on", "[fan_out]") {
  const std::string point = GENERATE("list", "extension", "extended");
  FanRun run;
  CHECK(killed_at(point, 1, [&run] { run.start(); }));
  sync_idle_run(run.store, run.directory);
  CHECK(run.state() == RunState::Interrupted);
  CHECK(run.states().contains("work[part=a]") == (point != "list"));
  CHECK(run.resume().state == RunState::Succeeded);
  CHECK(run.backend.submitted == Names{"split", "work[part=a]", "work[part=b]", "merge"});
  CHECK(newest_extension(run.directory) == 1);
}

TEST_CASE("a pending retry keeps its pause although a list is laid out meanwhile", "[fan_out]") {
  FanRun run("  flaky: {run: ./flaky, retry: {attempts: 2, on: [failure]}}\n");
  run.backend.fail("flaky");
  std::map<std::string, std::vector<Time>> submitted;
  run.backend.on_submit = [&](const std::string& job) {
    submitted[job].push_back(run.clock.now());
  };
  CHECK(run.start().state == RunState::Succeeded);
  REQUIRE(submitted["flaky"].size() == 2);
  CHECK(submitted["work[part=a]"].at(0) < submitted["flaky"].at(1));
  CHECK(submitted["flaky"].at(1) - submitted["flaky"].at(0) >= std::chrono::milliseconds(500));
}

TEST_CASE("a pass that waits for room during a list's layout does not read old records again",
          "[fan_out]") {
  FanRun run("  train: {run: ./train}\n");
  run.backend.ends["train"] = {Queued, Succeeded};
  run.backend.on_submit = [submissions = 0](const std::string& job) mutable {
    if (job == "train" && ++submissions == 2) throw Killed();
  };
  CHECK_THROWS_AS(run.start(), Killed);
  run.backend.on_submit = {};
  run.backend.cores = 1;  // which split occupies
  CHECK(run.resume().state == RunState::Succeeded);
  CHECK(newest_extension(run.directory) == 1);
  CHECK(run.backend.events_read["train#1.2"] > 0);
  CHECK(run.attempt("train") == 1);
}

TEST_CASE("a run whose list is not laid out has not succeeded", "[fan_out]") {
  TestRun run(
      "  split: {run: ./split, outputs: {parts: p.json}}\n"
      "  work: {matrix: {part: \"${{ steps.split.outputs.parts }}\"}, run: ./work}\n");
  lists(run, "split", "parts", {"a"});
  CHECK(killed_at("list", 1, [&run] { run.start(); }));
  run.store.rebuild_run(run.directory);
  CHECK(run.state() == RunState::Interrupted);
}

TEST_CASE("a changed list waits for running elements, and replaces them", "[fan_out]") {
  FanRun run;
  run.backend.cores = 1;
  run.backend.held = {"work[part=a]"};
  run.start_and_kill(6);
  REQUIRE(run.states()["work[part=a]"] == Running);
  std::filesystem::remove_all(run.directory / "steps" / "split");  // it has to run again
  lists(run, "split", "parts", {"b", "c", "d"});
  run.backend.cores = 2;
  bool let_go = false;
  run.observer.on_event = [&](const JobEvent& event) {
    if (event.job == "split" && event.state == Succeeded) let_go = true;
    if (let_go) run.backend.held.clear();
  };
  CHECK(run.resume().state == RunState::Succeeded);
  CHECK(run.states() == States{{"split", Succeeded},
                               {"work[part=b]", Succeeded},
                               {"work[part=c]", Succeeded},
                               {"work[part=d]", Succeeded},
                               {"merge", Succeeded}});
  CHECK(run.backend.submitted == Names{"split", "work[part=a]", "split#2", "work[part=b]",
                                       "work[part=c]", "work[part=d]", "merge"});
}

TEST_CASE("results of an earlier list are made again, and jobs that it blocked are free",
          "[fan_out]") {
  FanRun run;
  run.backend.fail("work[part=b]");
  CHECK(run.start().state == RunState::Failed);
  const auto saved = job_directory(run.directory, "work[part=a]") / "checkpoints/step-1";
  make_directories(saved);
  std::filesystem::remove_all(run.directory / "steps" / "split");
  lists(run, "split", "parts", {"a", "c"});
  run.backend.submitted.clear();
  const std::string point = GENERATE("", "listed again", "list", "extension", "extended");
  CHECK(killed_at(point, 1, [&run] { run.resubmit(); }) == !point.empty());
  CHECK(run.resume().state == RunState::Succeeded);
  CHECK(run.backend.submitted == Names{"split#2", "work[part=a]#2", "work[part=c]", "merge"});
  CHECK_FALSE(std::filesystem::exists(saved));  // set aside: it may be of the old list
}

TEST_CASE("the rerun of jobs is on disk before the new list is laid out", "[fan_out]") {
  const auto synced = is_synced_at("listed again", [] {
    FanRun run;
    run.backend.fail("work[part=b]");
    run.start();
    std::filesystem::remove_all(run.directory / "steps" / "split");
    lists(run, "split", "parts", {"a", "c"});
    run.resubmit();
  });
  if (!synced) return skip("system calls cannot be traced");
  CHECK(*synced);
}

TEST_CASE("a list that can no longer be laid out blocks waiting jobs, and leaves finished ones",
          "[fan_out]") {
  FanRun run;
  run.backend.fail("work[part=b]");
  CHECK(run.start().state == RunState::Failed);
  std::filesystem::remove_all(run.directory / "steps" / "split");
  lists(run, "split", "parts", 7);
  run.backend.submitted.clear();
  run.clock.advance(std::chrono::seconds(1));
  run.resubmit();
  CHECK(run.state() == RunState::Failed);
  CHECK(run.states() == States{{"split", Succeeded},
                               {"work[part=a]", Succeeded},
                               {"work[part=b]", Blocked},
                               {"merge", Blocked}});
  CHECK(run.backend.submitted == Names{"split#2"});
}

TEST_CASE("results of an earlier list that another run uses stay, and waiting jobs are blocked",
          "[fan_out]") {
  FanRun run;
  run.backend.fail("work[part=b]");
  CHECK(run.start().state == RunState::Failed);
  const std::filesystem::path first = run.directory;
  CHECK(run.start().state == RunState::Succeeded);
  REQUIRE(run.states()["work[part=a]"] == Cached);
  const std::string second = run_name(run.directory);
  run.directory = first;
  std::filesystem::remove_all(first / "steps" / "split");
  lists(run, "split", "parts", {"a", "c"});
  run.backend.submitted.clear();
  run.clock.advance(std::chrono::seconds(1));
  run.resubmit();
  CHECK(run.states() == States{{"split", Succeeded},
                               {"work[part=a]", Succeeded},
                               {"work[part=b]", Blocked},
                               {"merge", Blocked}});
  CHECK(run.backend.submitted == Names{"split#2"});
  CHECK_THAT(run.reason("work[part=b]"),
             Catch::Contains("the result of work[part=a] is used by " + second));
}

TEST_CASE("elements of one list run beside those of another, and a child of both comes last",
          "[fan_out]") {
  TestRun run(R"(
  one: {run: ./one, outputs: {l: l}}
  two: {run: ./two, outputs: {l: l}}
  a: {matrix: {x: "${{ steps.one.outputs.l }}"}, run: ./a}
  b: {matrix: {y: "${{ steps.two.outputs.l }}"}, run: ./b}
  c: {matrix: {x: "${{ steps.one.outputs.l }}", y: "${{ steps.two.outputs.l }}"}, run: ./c, needs: [a, b]}
)");
  run.backend.cores = 4;
  lists(run, "one", "l", {1, 2});
  lists(run, "two", "l", {3});
  CHECK(run.start().state == RunState::Succeeded);
  CHECK(run.states().size() == 7);
  CHECK(newest_extension(run.directory) == 2);
  CHECK(run.backend.submitted.size() == 7);
}

TEST_CASE("a reused result lists the same values", "[fan_out]") {
  FanRun run;
  CHECK(run.start().state == RunState::Succeeded);
  run.backend.submitted.clear();
  CHECK(run.start().state == RunState::Succeeded);
  CHECK(run.backend.submitted.empty());
  CHECK(run.states()["work[part=b]"] == Cached);
}

TEST_CASE("resubmit after a failed element runs only that element", "[fan_out]") {
  FanRun run;
  run.backend.fail("work[part=b]");
  CHECK(run.start().state == RunState::Failed);
  CHECK(run.states()["merge"] == Blocked);
  run.backend.submitted.clear();
  CHECK(run.resubmit().state == RunState::Succeeded);
  CHECK(run.backend.submitted == Names{"work[part=b]#2", "merge"});
}

TEST_CASE("a step with an allowed failure lists nothing", "[fan_out]") {
  TestRun run(R"(
  split: {run: ./split, outputs: {parts: p.json}, allow_failure: true}
  work: {matrix: {part: "${{ steps.split.outputs.parts }}"}, run: ./work}
  clean: {matrix: {part: "${{ steps.split.outputs.parts }}"}, run: ./clean, if: "${{ always() }}"}
)");
  run.backend.fail("split");
  run.start();
  CHECK(run.states()["work[part=?]"] == Skipped);
  CHECK(run.states()["clean[part=?]"] != Succeeded);
  CHECK(run.backend.submitted == Names{"split"});
}
