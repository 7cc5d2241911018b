#include "engine/run/chain/from_job.h"

#include <unistd.h>

#include "base/handle.h"
#include "base/parse_json.h"
#include "tests/support/catch.h"
#include "tests/support/chain_world.h"
#include "tests/support/variable.h"

// Work of a chain's job on its node after its end, in a fake batch system.

using namespace dlflow;
using namespace dlflow::test;
namespace fs = std::filesystem;

namespace {

/// Returns what `work` writes to standard error.
std::string errors_of(const std::function<void()>& work) {
  const TempDir folder;
  const fs::path file = folder.write("stderr", "");
  std::fflush(stderr);
  const int kept = ::dup(STDERR_FILENO);
  REQUIRE(std::freopen(file.c_str(), "w", stderr) != nullptr);
  work();
  std::fflush(stderr);
  ::dup2(kept, STDERR_FILENO);
  ::close(kept);
  return read_file(file);
}

class JobsWorld : public ChainWorld {
 public:
  explicit JobsWorld(const std::string& steps) : ChainWorld(steps) {}

  void run(const std::string& id, JobState state = Succeeded) {
    REQUIRE(nodes.begin(id));
    nodes.end(id, state);
  }

  fs::path batch_file(const std::string& id) const { return batch.jobs().at(id).batch.command[2]; }

  /// Does the work of `job-exec` after the pass of job `id`, and returns its output.
  std::string after(const std::string& id, void (*what)(const fs::path&, uint32_t, uint32_t)) {
    const FakeBatchSystem::Job& job = batch.jobs().at(id);
    return errors_of([&] {
      what(batch_file(id), uint32_t(std::stoul(job.batch.command[3])), job.task.value_or(0));
    });
  }
  std::string tell(const std::string& id) { return after(id, tell_what_ended); }
  std::string submit(const std::string& id) { return after(id, submit_what_was_listed); }

  /// Returns the news that was sent.
  Names told() const {
    Names names;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(directory / "notified", none)) {
      if (entry.path().extension() == ".log") names.push_back(entry.path().stem());
    }
    std::ranges::sort(names);
    return names;
  }
};

const std::string kNotify = "notify: {command: [\"true\"], on: [end, failure]}\n";
const std::string kTwoSteps = "  a: {run: ./a}\n  b: {run: ./b, needs: [a]}\n";

}  // namespace

TEST_CASE("the node of the last job reports the end of its run, once", "[from_job]") {
  JobsWorld world(kTwoSteps + kNotify);
  world.start();
  world.run("811");
  CHECK(world.tell("811") == "");
  CHECK(world.told().empty());
  world.run("812");
  CHECK(world.tell("812") == "");
  CHECK(world.told() == Names{"end-2"});
  const fs::path log = world.directory / "notified/end-2.log";
  CHECK(read_file(log) == "told: true\n");
  fs::remove(log);
  CHECK(world.tell("812") == "");  // as on a node that runs it once more
  CHECK(world.told().empty());
}

TEST_CASE("the node of a failed job reports the failure, and the end if it is one", "[from_job]") {
  JobsWorld world(kTwoSteps + kNotify);
  world.start();
  world.run("811", Failed);
  CHECK(world.tell("811") == "");
  CHECK(world.told() == Names{"end-2", "failure-1"});
  const auto told = [&world](const std::string& name) {
    return parse_json(read_file(world.directory / "notified" / (name + ".json")));
  };
  CHECK(told("failure-1").at("job") == "a");
  CHECK(told("end-2").at("state") == "failed");
}

TEST_CASE("a node reports no allowed failure, and no end that was not asked for", "[from_job]") {
  JobsWorld world(
      "  a: {run: ./a, allow_failure: true}\n  b: {run: ./b}\n"
      "notify: {command: [\"true\"], on: [failure]}\n");
  world.start();
  world.run("811", Failed);
  world.tell("811");
  world.run("812");
  world.tell("812");
  CHECK(world.told().empty());
}

TEST_CASE("a node reports nothing about an attempt that goes on, or has no record yet",
          "[from_job]") {
  JobsWorld world("  a: {run: ./a}\n" + kNotify);
  world.start();
  CHECK(world.tell("811") == "");
  make_directories(attempt_directory(job_directory(world.directory, "a"), 1));
  CHECK(world.tell("811") == "");
  REQUIRE(world.nodes.begin("811"));
  CHECK(world.tell("811") == "");
  CHECK(world.told().empty());
  world.nodes.end("811", Succeeded);
  CHECK(world.tell("811") == "");
  CHECK(world.told() == Names{"end-1"});
}

TEST_CASE("the end of an array is reported by the node of the last task", "[from_job]") {
  JobsWorld world("  a: {run: ./a, matrix: {n: [1, 2, 3]}}\n" + kNotify);
  world.start();
  const Names order = GENERATE(Names{"811_0", "811_1", "811_2"}, Names{"811_2", "811_1", "811_0"});
  for (const std::string& id : order) REQUIRE(world.nodes.begin(id));
  for (const std::string& id : order) {
    CHECK(world.told().empty());
    world.nodes.end(id, Succeeded);
    CHECK(world.tell(id) == "");
  }
  CHECK(world.told() == Names{"end-3"});
}

TEST_CASE("a shared task reports the failure of each element", "[from_job]") {
  JobsWorld world(
      "  a: {run: ./a, matrix: {n: [1, 2], pack: 2}, resources: {walltime: 1m}}\n"
      "notify: {command: [\"true\"], on: [failure]}\n");
  world.start();
  REQUIRE(world.nodes.begin("811_0"));
  world.nodes.end("811_0", Succeeded);
  world.nodes.end("811_0", Failed);
  CHECK(world.tell("811_0") == "");
  CHECK(world.told() == Names{"failure-1"});
}

TEST_CASE("a run without `notify` reports nothing, and an unreadable one is named", "[from_job]") {
  JobsWorld world(kTwoSteps);
  world.start();
  world.run("811", Failed);
  CHECK(world.tell("811") == "");
  CHECK_FALSE(fs::exists(world.directory / "notified"));
  JobsWorld damaged(kTwoSteps + kNotify);
  damaged.start();
  damaged.run("811");
  fs::permissions(damaged.batch_file("811"), fs::perms::owner_all);
  write_file_atomic(damaged.batch_file("811"), "{\n");
  CHECK_THAT(damaged.tell("811"),
             Catch::StartsWith("warning: the message about ended jobs was not sent: "));
}

TEST_CASE("a job that has listed submits, if jobs may", "[from_job]") {
  const bool may_submit = GENERATE(true, false);
  JobsWorld world(
      "  split: {run: ./split, outputs: {parts: p.json}}\n"
      "  work: {matrix: {part: \"${{ steps.split.outputs.parts }}\"}, run: ./work}\n"
      "  beside: {run: ./beside}\n");
  world.profile.submit_from_jobs = may_submit;
  world.nodes.outputs["split"] = {{"parts", {{"value", {"x"}}, {"sha256", "1"}}}};
  world.start();
  world.nodes.run_all();
  const TempDir empty;
  const Variable path("PATH", empty.path());  // a folder without sbatch
  CHECK(world.submit("812") == "");           // it lists nothing
  const std::string said = world.submit("811");
  CHECK(said.starts_with("error: the listed jobs were not submitted: ") == may_submit);
  CHECK(said.empty() != may_submit);
}
