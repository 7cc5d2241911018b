#include "engine/run/new_sources.h"

#include "base/parse_json.h"
#include "engine/run/reuses.h"
#include "tests/support/catch.h"
#include "tests/support/chain_world.h"
#include "tests/support/error_of.h"
#include "tests/support/skip.h"
#include "tests/support/syscalls.h"
#include "tests/support/test_run.h"

using namespace dlflow;
using namespace dlflow::test;
namespace fs = std::filesystem;

namespace {

constexpr const char* kSourceSteps = R"(
  other: {run: ./other}
  a: {run: ./a, inputs: [conf]}
  b: {run: ./b, inputs: [b.txt], needs: [a]}
  c: {run: ./c, needs: [b]}
)";

/// A run of steps that read files beside the workflow.
class SourcesRun : public TestRun {
 public:
  SourcesRun() : TestRun(kSourceSteps) {
    write("conf/one.txt", "1");
    write("b.txt", "1");
  }

  void write(const std::string& name, const std::string& text) {
    make_directories((path() / name).parent_path());
    write_file_atomic(path() / name, text);
  }

  Names changed() { return changed_sources(load_run(directory), store); }
  RunResult with_new_sources() { return submit_again({.new_sources = true}); }

  /// Returns the jobs submitted after the first `count`.
  Names submitted_after(size_t count) {
    return {backend.submitted.begin() + ptrdiff_t(count), backend.submitted.end()};
  }

  std::string reason(const JobName& job, int attempt) {
    for (const JobEvent& event : EventTail(engine_events_file(directory)).read()) {
      if (event.job == job && event.attempt == attempt && event.state == Planned)
        return event.reason;
    }
    return "";
  }
};

}  // namespace

TEST_CASE("changes since a run was made are changed, new and missing files", "[sources]") {
  SourcesRun run;
  CHECK(run.start().state == RunState::Succeeded);
  CHECK(run.changed().empty());
  run.write("b.txt", "2");
  CHECK(run.changed() == Names{"b.txt"});
  run.write("conf/two.txt", "2");
  CHECK(run.changed() == Names{"b.txt", "conf/two.txt"});
  fs::remove(run.path() / "conf/one.txt");
  CHECK(run.changed() == Names{"b.txt", "conf/one.txt", "conf/two.txt"});
  run.write("b.txt", "1");
  fs::remove(run.path() / "conf/two.txt");
  run.write("conf/one.txt", "1");
  CHECK(run.changed().empty());
  fs::remove(run.path() / "b.txt");
  CHECK(run.changed() == Names{"b.txt"});
}

TEST_CASE("nothing has changed if the folder of the workflow does not exist", "[sources]") {
  SourcesRun run;
  CHECK(run.start().state == RunState::Succeeded);
  Plan plan = load_run(run.directory);
  plan.base = run.path() / "on another machine";
  CHECK(changed_sources(plan, run.store).empty());
}

TEST_CASE("new sources rerun the steps that read them, and their dependents", "[sources]") {
  SourcesRun run;
  CHECK(run.start().state == RunState::Succeeded);
  const size_t before = run.backend.submitted.size();
  SECTION("no step runs if nothing has changed") {
    CHECK(run.with_new_sources().state == RunState::Succeeded);
    CHECK(run.submitted_after(before).empty());
    CHECK(load_run(run.directory).sources == "sources");
  }
  SECTION("a step in the middle runs again") {
    run.write("b.txt", "2");
    CHECK(run.with_new_sources().state == RunState::Succeeded);
    CHECK(run.submitted_after(before) == Names{"b#2", "c#2"});
    const Plan plan = load_run(run.directory);
    CHECK(read_file(frozen_file(plan, "b.txt")) == "2");
    CHECK(read_file(frozen_file(plan, "conf/one.txt")) == "1");
    CHECK(read_file(run.directory / "sources/b.txt") == "1");  // read by the first attempt
    CHECK(run.reason("b", 1) == "its inputs changed: b.txt");
    CHECK(run.reason("c", 1) == "a result that it needs is computed again");
    CHECK(run.changed().empty());
    CHECK(run.with_new_sources().state == RunState::Succeeded);
    CHECK(run.submitted_after(before).size() == 2);
  }
  SECTION("a step that reads a new file runs again") {
    run.write("conf/two.txt", "2");
    CHECK(run.with_new_sources().state == RunState::Succeeded);
    CHECK(run.submitted_after(before) == Names{"a#2", "b#2", "c#2"});
    const fs::path spec = attempt_directory(job_directory(run.directory, "a"), 2) / "job.json";
    const Json inputs = parse_json(read_file(spec)).at("inputs");
    CHECK(inputs.contains("conf/two.txt"));
    CHECK(read_file(inputs.at("conf/two.txt").get<std::string>()) == "2");
  }
}

TEST_CASE("a failed step begins anew with its new sources", "[sources]") {
  SourcesRun run;
  run.backend.fail("b");
  CHECK(run.start().state == RunState::Failed);
  const fs::path checkpoints = job_directory(run.directory, "b") / "checkpoints";
  make_directories(checkpoints);
  write_file_atomic(checkpoints / "n", "made of the old sources");
  const size_t before = run.backend.submitted.size();
  run.write("b.txt", "2");
  CHECK(run.with_new_sources().state == RunState::Succeeded);
  CHECK(run.submitted_after(before) == Names{"b#2", "c"});
  CHECK_FALSE(fs::exists(checkpoints / "n"));
  CHECK(fs::exists(attempt_directory(checkpoints.parent_path(), 1) / "checkpoints/n"));
}

TEST_CASE("a running job keeps its sources and inputs: new ones are refused", "[sources]") {
  SourcesRun run;
  run.backend.held = {"b"};
  run.start_and_kill(8);
  REQUIRE(run.states()["b"] == Running);
  const size_t before = run.backend.submitted.size();
  const auto refusal = [&run] { return error_of([&run] { run.with_new_sources(); }); };
  SECTION("new sources of the job") {
    run.write("b.txt", "2");
    CHECK_THAT(refusal(), Catch::StartsWith("b runs or waits with the sources that it was "
                                            "submitted with; type `dlflow cancel "));
  }
  SECTION("new sources of its parents") {
    run.write("conf/one.txt", "2");
    CHECK_THAT(refusal(), Catch::StartsWith("b runs or waits with results that will be computed "
                                            "again; type `dlflow cancel "));
  }
  CHECK(run.submitted_after(before).empty());
  CHECK(load_run(run.directory).sources == "sources");
}

TEST_CASE("a result that another run uses is not made anew", "[sources]") {
  SourcesRun run;
  CHECK(run.start().state == RunState::Succeeded);
  const fs::path first = run.directory;
  CHECK(other_user_of(reuses_of_runs(run.store), run_name(first), job_directory(first, "a")) == "");
  run.write("b.txt", "2");
  CHECK(run.start().state == RunState::Succeeded);
  const std::string second = run_name(run.directory);
  REQUIRE(run.states()["a"] == Cached);
  CHECK(other_user_of(reuses_of_runs(run.store), run_name(first), job_directory(first, "a")) ==
        second);
  CHECK(other_user_of(reuses_of_runs(run.store), run_name(first), job_directory(first, "b")) == "");
  CHECK(other_user_of(reuses_of_runs(run.store), second, job_directory(first, "a")) == "");
  run.write("b.txt", "1");
  run.write("conf/one.txt", "2");
  run.directory = first;
  CHECK_THAT(error_of([&run] { run.with_new_sources(); }),
             Catch::StartsWith("the result of a is used by " + second + ", so it cannot change"));
}

TEST_CASE("the rerun of jobs is on disk before the new sources are", "[sources]") {
  const auto on_this_machine = is_synced_at("planned-anew", [] {
    SourcesRun run;
    run.start();
    run.write("b.txt", "2");
    run.with_new_sources();
  });
  const auto in_a_batch_system = is_synced_at("planned-anew", [] {
    ChainWorld world("\n  a: {run: ./a, inputs: [a.txt]}\n");
    write_file_atomic(world.path() / "a.txt", "1");
    world.start();
    world.end_all();
    write_file_atomic(world.path() / "a.txt", "2");
    submit_chain(world.directory, {.new_sources = true}, world.services());
  });
  if (!on_this_machine || !in_a_batch_system) return skip("system calls cannot be traced");
  CHECK(*on_this_machine);
  CHECK(*in_a_batch_system);
}
