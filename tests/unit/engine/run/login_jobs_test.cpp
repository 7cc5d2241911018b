#include "engine/run/chain/login_jobs.h"

#include "engine/decide/retry.h"
#include "tests/support/catch.h"
#include "tests/support/chain_world.h"
#include "tests/support/skip.h"
#include "tests/support/syscalls.h"

// Steps that run on the login node, before, between and after jobs of a batch system.

using namespace dlflow;
using namespace dlflow::test;

namespace {

/// A chain on a cluster whose class `login` is the login node, here a FakeBackend.
class LoginWorld : public ChainWorld {
 public:
  explicit LoginWorld(const std::string& steps) : ChainWorld(steps) {
    NodeClass cpu = as_class(profile, "cpu", false);
    cpu.batch_options["slurm"]["partition"] = "cpu";
    profile.classes = {cpu, as_class(profile, "login", true)};
  }

  ChainServices services() {
    ChainServices all = ChainWorld::services();
    all.login_node = &login;
    all.tell = [this](const std::string& line) { told.push_back(line); };
    return all;
  }

  ChainResult start() {
    Plan created = plan(profile);
    create_chain(created, services(), program());
    directory = created.directory;
    return resume();
  }
  ChainResult resume() { return submit_chain(directory, {}, services()); }
  ChainResult resubmit() {
    return submit_chain(directory, {.failed = true, .names = {}}, services());
  }
  CancelResult cancel() { return cancel_chain(directory, {}, services()); }

  FakeBackend login{clock};
  Names told;
};

constexpr const char* kSteps = R"(
  fetch: {run: ./fetch, on: login, outputs: {data: d}}
  unpack: {run: ./unpack, on: login, needs: [fetch]}
  train: {run: ./train, needs: [unpack]}
  other: {run: ./other}
)";

/// Kills dlflow while `fetch` runs on the login node.
void start_and_kill(LoginWorld& world) {
  world.login.held.insert("fetch");
  world.login.waits_until_killed = 1;
  CHECK_THROWS_AS(world.start(), Killed);
  world.login.waits_until_killed = -1;
  world.login.forget_news();
}

}  // namespace

TEST_CASE("steps of the login node run in their order before the chain is submitted", "[login]") {
  LoginWorld world(kSteps);
  const ChainResult result = world.start();
  CHECK(world.login.submitted == Names{"fetch", "unpack"});
  CHECK(world.batch.submitted == Names{"train 811", "other 812"});
  CHECK(world.look() ==
        States{{"fetch", Succeeded}, {"unpack", Succeeded}, {"train", Queued}, {"other", Queued}});
  CHECK(result.later_here.empty());
  CHECK(world.told[0] == "fetch runs here, on the login node");
  CHECK_THAT(world.told[1], Catch::StartsWith("fetch succeeded after "));
  world.end_all();
  CHECK(world.state() == RunState::Succeeded);
}

TEST_CASE("planned jobs wait for the first earlier step on the login node", "[login]") {
  LoginWorld world(kSteps);
  const Plan plan = world.plan(world.profile);
  using Before = std::vector<std::optional<uint32_t>>;
  CHECK(login_jobs_before(plan, {Planned, Planned, Planned, Planned}) ==
        Before{0, 0, 0, std::nullopt});
  CHECK(login_jobs_before(plan, {Succeeded, Planned, Planned, Planned}) ==
        Before{std::nullopt, 1, 1, std::nullopt});
  CHECK(login_jobs_before(plan, {Succeeded, Succeeded, Planned, Planned}) == Before(4));
  CHECK(login_jobs_before(plan, {Planned, Planned, Blocked, Queued}) ==
        Before{0, 0, std::nullopt, std::nullopt});
}

TEST_CASE("jobs that a list of the login node adds also count for the limit of jobs", "[login]") {
  LoginWorld world(R"(
  split: {run: ./split, on: login, outputs: {parts: p.json}}
  work: {matrix: {part: "${{ steps.split.outputs.parts }}"}, run: ./work}
)");
  world.profile.limits.jobs = 2;
  const Json parts = {"a", "b", "c", "d", "e"};
  world.login.outputs["split"] = {{"parts", {{"value", parts}, {"sha256", parts.dump()}}}};
  CHECK(world.start().held_back == 3);
  CHECK(world.batch.jobs().size() == 2);
}

TEST_CASE("no more than max_parallel elements of a matrix run on the login node", "[login]") {
  LoginWorld world(R"(
  sweep: {run: ./sweep, on: login, matrix: {n: [1, 2, 3], max_parallel: 2}}
  other: {run: ./other, on: login}
)");
  world.start();
  CHECK(world.login.submitted == Names{"sweep[n=1]", "sweep[n=2]", "other", "sweep[n=3]"});
}

TEST_CASE("a failure on the login node blocks its dependents, and nothing else", "[login]") {
  LoginWorld world(kSteps);
  world.login.fail("fetch");
  CHECK(world.start().failed_here == Names{"fetch"});
  CHECK(world.batch.submitted == Names{"other 811"});
  CHECK(world.look() ==
        States{{"fetch", Failed}, {"unpack", Blocked}, {"train", Blocked}, {"other", Queued}});
  world.nodes.run_all();
  world.resubmit();
  CHECK(world.login.submitted == Names{"fetch", "fetch#2", "unpack"});
  CHECK(world.batch.submitted == Names{"other 811", "train 812"});
}

TEST_CASE("a skipped step of the login node holds up nothing, and is made again with its parent",
          "[login]") {
  LoginWorld world(R"(
  fetch: {run: ./fetch, on: login, allow_failure: true, outputs: {data: d}}
  unpack: {run: [./unpack, "${{ steps.fetch.outputs.data }}"], on: login}
  train: {run: ./train, needs: [unpack]}
)");
  world.login.fail("fetch");
  world.start();
  CHECK(world.look() == States{{"fetch", Failed}, {"unpack", Skipped}, {"train", Queued}});
  CHECK(world.parent_of("train").skipped);
  CHECK_FALSE(world.parent_of("train").failed);
  if (GENERATE(false, true)) {
    CHECK(world.end_all().at("train") == Succeeded);
    return;
  }
  world.login.fail("unpack");
  submit_chain(world.directory, {.failed = true, .names = {"fetch"}}, world.services());
  CHECK(world.end_all() == States{{"fetch", Succeeded}, {"unpack", Failed}, {"train", Blocked}});
  CHECK(world.nodes.runs["train"] == 0);
}

TEST_CASE("a step of the login node is tried again according to the workflow", "[login]") {
  LoginWorld world("  fetch: {run: ./fetch, on: login, retry: {attempts: 2, on: [failure]}}\n");
  world.login.fail("fetch");
  std::vector<Time> times;
  world.login.on_submit = [&](const std::string&) { times.push_back(world.clock.now()); };
  world.start();
  CHECK(world.login.submitted == Names{"fetch", "fetch#2"});
  CHECK(times.at(1) - times.at(0) >= retry_delay(1));
  CHECK(world.look() == States{{"fetch", Succeeded}});
}

TEST_CASE("a step of the login node that needs a job's result waits for the next call", "[login]") {
  LoginWorld world(R"(
  train:  {run: ./train}
  upload: {run: ./upload, on: login, needs: [train]}
  report: {run: ./report, needs: [upload]}
)");
  const ChainResult result = world.start();
  CHECK(result.later_here == Names{"upload"});
  CHECK(world.batch.submitted == Names{"train 811"});
  CHECK(world.login.submitted.empty());
  CHECK(world.look() == States{{"train", Queued}, {"upload", Planned}, {"report", Planned}});
  CHECK(world.resume().later_here == Names{"upload"});  // no job has ended yet
  world.nodes.run_all();
  CHECK(world.resume().later_here.empty());
  CHECK(world.login.submitted == Names{"upload"});
  CHECK(world.batch.submitted == Names{"train 811", "report 812"});
  world.end_all();
  CHECK(world.state() == RunState::Succeeded);
}

TEST_CASE("a step of the login node runs once although dlflow is killed meanwhile", "[login]") {
  const std::string point = GENERATE("intent", "attempt", "spawn");
  const int n = GENERATE(1, 2);
  CAPTURE(point, n);
  LoginWorld world(kSteps);
  CHECK(killed_at(point, n, [&] { world.start(); }));
  CHECK(world.batch.submitted.empty());
  world.login.forget_news();
  if (world.directory.empty()) return;
  world.resume();
  CHECK(world.login.submitted == Names{"fetch", "unpack"});
  CHECK(world.batch.submitted == Names{"train 811", "other 812"});
}

TEST_CASE("the intention to run a step on the login node is on disk before the step runs",
          "[login]") {
  const auto synced = is_synced_at("intent", [] { LoginWorld(kSteps).start(); });
  if (!synced) return skip("system calls cannot be traced");
  CHECK(*synced);
}

TEST_CASE("a step of the login node whose supervisor vanished is lost, and runs again", "[login]") {
  LoginWorld world(kSteps);
  start_and_kill(world);
  world.login.held.clear();
  world.login.recovery["fetch"] = Recovery::Vanished;
  world.resume();
  CHECK(world.login.submitted == Names{"fetch", "fetch#2", "unpack"});
}

TEST_CASE("a cancel ends processes that a killed dlflow left on the login node", "[login]") {
  LoginWorld world(kSteps);
  start_and_kill(world);
  CHECK(world.cancel().cancelled == 1);
  CHECK(world.login.stopped == std::vector<std::pair<std::string, Stop>>{{"fetch", Stop::AndSave}});
  CHECK(world.look()["fetch"] == JobState::Cancelled);
  CHECK(world.batch.submitted.empty());
}

TEST_CASE("a cancel during a step on the login node ends it and submits nothing", "[login]") {
  LoginWorld world(kSteps);
  world.login.held.insert("fetch");
  world.login.on_submit = [&](const std::string&) {
    world.directory = *std::filesystem::directory_iterator(world.path() / "runs");
    for (const auto& entry : std::filesystem::directory_iterator(world.path() / "runs")) {
      if (std::filesystem::exists(entry.path() / "plan.json")) world.directory = entry.path();
    }
    write_file_atomic(world.directory / "cancel", "");
  };
  const ChainResult result = world.start();
  CHECK(result.interrupted);
  CHECK(world.batch.submitted.empty());
  CHECK(world.look()["fetch"] == JobState::Cancelled);
  world.login.on_submit = {};
  world.login.held.clear();
  CHECK_FALSE(world.resume().interrupted);
  CHECK(world.batch.submitted == Names{"train 811", "other 812"});
}

TEST_CASE("a step that the login node cannot take is refused before anything exists", "[login]") {
  LoginWorld ranks("  a:\n    run: x\n    on: login\n    resources: {ranks: 4}\n");
  CHECK_THROWS_WITH(ranks.start(),
                    Catch::Contains("test.yaml:6:16: error: step 'a' runs on the login node (class "
                                    "login), which runs only steps with one rank, not 4"));
  LoginWorld cores("  a: {run: x, on: login, resources: {cpus_per_rank: 2000}}\n");
  CHECK_THROWS_WITH(cores.start(), Catch::Contains("asks for more than jobs may use there"));
}
