#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <regex>
#include <set>
#include <thread>

#include "base/text.h"
#include "engine/backend/local.h"
#include "engine/backend/room.h"
#include "engine/plan/run_directory.h"
#include "engine/supervisor/claim.h"
#include "tests/support/catch.h"
#include "tests/support/in_child.h"
#include "tests/support/test_run.h"

using namespace dlflow;
using namespace dlflow::test;
using namespace std::chrono_literals;

namespace fs = std::filesystem;

namespace {

/// Runs on processes of this machine.
class LocalRun : public RunFolder {
 public:
  /// \param steps  TRACE in them stands for a file, see trace().
  explicit LocalRun(const std::string& steps, const Machine& machine = {.cores = 2})
      : RunFolder(steps), machine_(machine) {
    machine_.memory_bytes = uint64_t{1} << 30;
    rewrite(std::regex_replace(steps, std::regex("TRACE"), (path() / "trace").string()));
  }

  /// Returns the result of `work` on a separate back end.
  template <typename Work>
  auto with_services(Work work) {
    const auto backend = local_backend(machine_, LAUNCHER_DRIVER);
    RecordingObserver silent;
    const SystemClock clock;
    return work(Services{store, *backend, silent, clock});
  }

  RunState start() {
    return with_services([this](const Services& services) {
      return start_run(created_plan(services), services).state;
    });
  }
  RunState resume() {
    return with_services(
        [this](const Services& services) { return resume_run(directory, services).state; });
  }
  bool cancel() {
    return with_services(
        [this](const Services& services) { return cancel_run(directory, services); });
  }

  /// Starts the run in another process with its own store, and waits for so many words in TRACE.
  /// Returns its pid.
  pid_t start_elsewhere(size_t words = 1) {
    Plan plan = with_services([this](const Services& services) { return created_plan(services); });
    const pid_t child = begin_child([&] {
      Store own(path() / "state");
      const auto backend = local_backend(machine_, LAUNCHER_DRIVER);
      RecordingObserver silent;
      const SystemClock clock;
      start_run(std::move(plan), {own, *backend, silent, clock});
      return 0;
    });
    wait_for_trace(words);
    return child;
  }

  /// Returns the words that steps wrote to TRACE.
  std::vector<std::string> trace() const {
    std::ifstream file(path() / "trace");
    std::vector<std::string> words;
    for (std::string word; file >> word;) words.push_back(word);
    return words;
  }

  void wait_for_trace(size_t words) const {
    for (int i = 0; trace().size() < words; ++i) {
      REQUIRE(i < 6000);
      std::this_thread::sleep_for(10ms);
    }
  }

 private:
  Machine machine_;
};

void kill_and_reap(pid_t pid) {
  ::kill(pid, SIGKILL);
  wait_for(pid);
}

}  // namespace

TEST_CASE("steps run as processes, one after the other", "[local]") {
  LocalRun run(R"(
  a: {run: 'echo a >> TRACE'}
  b: {run: 'echo b >> TRACE', needs: [a]}
)");
  CHECK(run.start() == RunState::Succeeded);
  CHECK(run.trace() == std::vector<std::string>{"a", "b"});
}

TEST_CASE("no more steps run at once than there are cores", "[local]") {
  LocalRun run(R"(
  step:
    matrix: {n: [1, 2, 3, 4, 5]}
    run: 'mkdir TRACE.alone && sleep 0.02 && rmdir TRACE.alone'
)",
               {.cores = 1});
  CHECK(run.start() == RunState::Succeeded);
}

TEST_CASE("a failing step's exit status is recorded", "[local]") {
  LocalRun run("  bad: {run: 'exit 3'}\n");
  CHECK(run.start() == RunState::Failed);
  CHECK(run.store.status(run_name(run.directory)).jobs.at(0).exit == 3);
}

TEST_CASE("a step with more ranks than cores takes all of them", "[local]") {
  Resources four_ranks;
  four_ranks.ranks = 4;
  CHECK(local_backend({.cores = 2, .memory_bytes = 1 << 20})->has_room(four_ranks));
}

TEST_CASE("an impossible step is refused before anything of the run exists", "[local]") {
  LocalRun run("  big: {run: 'true', resources: {memory: 64GiB}}\n");
  CHECK_THROWS_WITH(run.start(), Catch::Contains("test.yaml:3:") &&
                                     Catch::Contains("'big' asks for 64.0 GiB of memory") &&
                                     Catch::Contains("1.0 GiB"));
  CHECK_FALSE(std::filesystem::exists(run.path() / "runs"));
}

TEST_CASE("each job gets its own GPUs", "[local]") {
  LocalRun run(R"(
  none: {run: 'echo none:$CUDA_VISIBLE_DEVICES >> TRACE'}
  two:  {run: 'echo two:$CUDA_VISIBLE_DEVICES >> TRACE', needs: [none], resources: {gpus_per_rank: 2}}
)",
               {.cores = 2, .gpus = {"4", "6"}});
  CHECK(run.start() == RunState::Succeeded);
  CHECK(run.trace() == std::vector<std::string>{"none:", "two:4,6"});
}

TEST_CASE("simultaneous runs have different GPUs, also after an engine was killed", "[local]") {
  const std::string gpu = "local-run-test-" + std::to_string(::getpid());
  const Machine machine = {.cores = 2, .gpus = {gpu + "-0", gpu + "-1"}};
  const std::string one = "resources: {gpus_per_rank: 1}";
  LocalRun first(
      "  a: {run: 'echo $CUDA_VISIBLE_DEVICES >> TRACE; while [ ! -e TRACE.go ]; do "
      "sleep 0.01; done', " +
          one + "}\n",
      machine);
  LocalRun second("  a: {run: 'echo $CUDA_VISIBLE_DEVICES >> TRACE', " + one + "}\n", machine);
  kill_and_reap(first.start_elsewhere());
  CHECK(second.start() == RunState::Succeeded);
  CHECK(second.trace() != first.trace());
  CHECK(second.trace().size() == 1);
  std::ofstream(first.path() / "trace.go") << "";
  CHECK(first.resume() == RunState::Succeeded);
}

TEST_CASE("a GPU is free once its step has ended, whatever else runs", "[local]") {
  const std::string gpu = "local-run-test-" + std::to_string(::getpid());
  LocalRun run(
      "  a: {run: 'true', resources: {gpus_per_rank: 1}}\n"
      "  b: {run: 'echo b >> TRACE; while [ ! -e TRACE.go ]; do sleep 0.01; done', needs: [a]}\n",
      {.cores = 2, .gpus = {gpu}});
  const pid_t engine = run.start_elsewhere();
  CHECK(GpuLock::try_acquire(gpu).has_value());
  std::ofstream(run.path() / "trace.go") << "";
  CHECK(wait_for(engine).code == 0);
}

TEST_CASE("a job waits for a GPU of another run", "[local]") {
  const std::string gpu = "local-run-test-" + std::to_string(::getpid());
  const Machine machine = {.cores = 2, .gpus = {gpu}};
  LocalRun run("  a: {run: 'cat TRACE.other >> TRACE', resources: {gpus_per_rank: 1}}\n", machine);
  auto other = GpuLock::try_acquire(gpu);
  REQUIRE(other);
  std::thread release([&] {
    while (!std::filesystem::exists(run.path() / "runs")) std::this_thread::sleep_for(1ms);
    std::ofstream(run.path() / "trace.other") << "released";
    other.reset();
  });
  CHECK(run.start() == RunState::Succeeded);
  release.join();
  CHECK(run.trace() == std::vector<std::string>{"released"});
}

TEST_CASE("steps outlive a killed engine and are adopted by the next", "[local]") {
  LocalRun run(R"(
  slow:  {run: 'echo begin >> TRACE; while [ ! -e TRACE.go ]; do sleep 0.01; done; echo end >> TRACE'}
  after: {run: 'echo after >> TRACE', needs: [slow]}
)");
  kill_and_reap(run.start_elsewhere());
  std::ofstream(run.path() / "trace.go") << "";
  CHECK(run.resume() == RunState::Succeeded);
  CHECK(run.trace() == std::vector<std::string>{"begin", "end", "after"});
  CHECK(run.attempt("slow") == 1);
}

TEST_CASE("a job that ended without an engine is recognised by the next engine", "[local]") {
  LocalRun run(R"(
  slow:  {run: 'echo begin >> TRACE; sleep 0.1; echo end >> TRACE'}
  after: {run: 'echo after >> TRACE', needs: [slow]}
)");
  kill_and_reap(run.start_elsewhere());
  run.wait_for_trace(2);
  CHECK(run.resume() == RunState::Succeeded);
  CHECK(run.trace() == std::vector<std::string>{"begin", "end", "after"});
}

TEST_CASE("a job whose supervisor was killed is lost, and its processes are ended", "[local]") {
  LocalRun run(R"(
  slow: {run: 'echo $$ >> TRACE; test $DLFLOW_ATTEMPT = 2 || sleep 100', retry: {attempts: 2, on: [node-failure]}}
)");
  const pid_t engine = run.start_elsewhere();
  const auto claim = newest_claim(run.directory / "steps/slow/attempt-1");
  REQUIRE(claim.has_value());
  ::kill(claim->supervisor.pid, SIGKILL);
  run.wait_for_trace(2);  // the second attempt
  CHECK(wait_for(engine).signal == 0);
  CHECK(run.attempt("slow") == 2);
  std::vector<JobEvent> written = EventTail(run.directory / "events.jsonl").read();
  std::erase_if(written, [](const JobEvent& event) { return event.state != Lost; });
  REQUIRE(written.size() == 1);
  CHECK(written[0].attempt == 1);
  CHECK(written[0].node == host_name());
  CHECK(written[0].reason == "its supervisor was killed by signal 9");
  CHECK(run.state() == RunState::Succeeded);
  CHECK_FALSE(identify(pid_t(std::stoi(run.trace().front()))).has_value());
}

TEST_CASE("a run whose engine was killed is cancelled through its supervisors", "[local]") {
  LocalRun run("  slow: {run: 'echo begin >> TRACE; sleep 100'}\n");
  kill_and_reap(run.start_elsewhere());
  CHECK(run.cancel());
  CHECK(run.states() == States{{"slow", JobState::Cancelled}});
  CHECK(run.state() == RunState::Cancelled);
}

TEST_CASE("a run is cancelled through the engine that works on it", "[local]") {
  LocalRun run("  slow: {run: 'echo begin >> TRACE; sleep 100'}\n");
  const pid_t engine = run.start_elsewhere();
  CHECK(run.cancel());
  wait_for(engine);
  CHECK(run.states() == States{{"slow", JobState::Cancelled}});
}

TEST_CASE("steps go on without their launcher, and others are started by a new one", "[local]") {
  LocalRun run(R"(
  slow:  {run: 'echo begin >> TRACE; read -r _ _ _ launcher _ < /proc/$PPID/stat; kill -9 $launcher; sleep 0.3; echo end >> TRACE'}
  after: {run: 'echo after >> TRACE', needs: [slow]}
)");
  CHECK(run.start() == RunState::Succeeded);
  CHECK(run.trace() == std::vector<std::string>{"begin", "end", "after"});
}

TEST_CASE("a supervisor that has recorded its step takes another", "[local]") {
  std::string steps;  // different commands, since equal ones would be reused
  for (int i = 0; i < 20; ++i) {
    const std::string number = std::to_string(i);
    steps += "  s" + number + ": {run: 'echo $PPID >> TRACE; : " + number + "'";
    steps += i == 0 ? "}\n" : ", needs: [s" + std::to_string(i - 1) + "]}\n";
  }
  LocalRun run(steps);
  CHECK(run.start() == RunState::Succeeded);
  const std::vector<std::string> supervisors = run.trace();
  REQUIRE(supervisors.size() == 20);
  // Fewer than 20, but perhaps more than one: a step may be handed over before the last supervisor
  // has reported that it is free.
  CHECK(std::set<std::string>(supervisors.begin(), supervisors.end()).size() < 20);
}

TEST_CASE("a result without outputs survives a power cut that removed its folders", "[local]") {
  LocalRun run(R"(
  quiet: {run: [/bin/true]}
  child: {run: 'echo child >> TRACE', needs: [quiet]}
  full: {run: 'echo text > $DLFLOW_OUTPUTS/file', outputs: {file: file}}
  bad: {run: exit 3, allow_failure: true}
)");
  CHECK(run.start() == RunState::Succeeded);
  for (const char* job : {"quiet", "child", "bad"}) {
    fs::remove_all(job_directory(run.directory, job));
  }
  size_t logs = 0;
  for (const auto& log : fs::directory_iterator(run.directory / "ends")) {
    ++logs;
    CHECK(read_file(log.path()).find("\"full\"") == std::string::npos);  // its own record is synced
    fs::rename(log.path(), run.directory / "ends" / "an-earlier-boot-7.jsonl");
  }
  CHECK(logs == 1);
  run.store.rebuild_run(run.directory);
  const RunStatus status = run.store.status(run.directory.string());
  CHECK(status.state == RunState::Succeeded);
  CHECK(status.jobs[0].state == Succeeded);
  CHECK(status.jobs[3].exit == 3);
  CHECK(published_result(job_directory(run.directory, "quiet")));
  CHECK(run.resume() == RunState::Succeeded);
  CHECK(run.trace() == std::vector<std::string>{"child"});
}

TEST_CASE("a supervisor killed between two steps harms neither", "[local]") {
  // Both run at once, and so under two supervisors.
  LocalRun run(R"(
  quick: {run: 'echo $PPID >> TRACE; until [ -e TRACE.slow ]; do sleep 0.01; done'}
  slow:
    run: |
      touch TRACE.slow
      until grep -q succeeded $DLFLOW_OUTPUTS/../../../../quick/attempt-1/events.jsonl; do sleep 0.01; done
      sleep 0.05
      kill -9 $(cat TRACE) && echo killed >> TRACE
      read -r _ _ _ launcher _ < /proc/$PPID/stat; echo $launcher >> TRACE
  after:
    matrix: {n: [1, 2, 3, 4]}
    needs: [slow]
    run: 'read -r _ _ _ launcher _ < /proc/$PPID/stat; echo $launcher >> TRACE'
)");
  CHECK(run.start() == RunState::Succeeded);
  const std::vector<std::string> trace = run.trace();
  REQUIRE(trace.size() == 7);
  CHECK(trace[1] == "killed");
  for (size_t i = 3; i < trace.size(); ++i) CHECK(trace[i] == trace[2]);  // one launcher for all
}

TEST_CASE("a step's usage is its own, although its supervisor ran others before", "[local]") {
  LocalRun run(R"(
  large: {run: 'head -c 100000000 /dev/zero | tail -c 100000000 > /dev/null'}
  small: {matrix: {n: [1, 2, 3, 4]}, needs: [large], run: 'true'}
)");
  CHECK(run.start() == RunState::Succeeded);
  const auto memory_of = [&](const std::string& job) {
    const auto events = EventTail(run.directory / "steps" / job / "attempt-1/events.jsonl").read();
    REQUIRE(events.back().used.has_value());
    return events.back().used->memory_bytes;
  };
  CHECK(memory_of("large") >= 100'000'000);
  for (const char* job : {"small/n=1", "small/n=2", "small/n=3", "small/n=4"}) {
    CHECK(memory_of(job) < 50'000'000);
  }
}

TEST_CASE("processes that a step leaves behind end with it, in any session", "[local]") {
  LocalRun run(R"(
  a:
    run: |
      setsid sh -c 'echo $$ >> TRACE; exec sleep 600' > /dev/null 2>&1 &
      until [ -s TRACE ]; do sleep 0.01; done
)");
  CHECK(run.start() == RunState::Succeeded);
  REQUIRE(run.trace().size() == 1);
  CHECK(::kill(pid_t(std::stol(run.trace().front())), 0) == -1);
}

TEST_CASE("a supervisor has a session of its own: no terminal's end reaches it", "[local]") {
  LocalRun run(
      "  a: {run: 'read -r _ _ _ _ _ session _ < /proc/$PPID/stat; echo $PPID $session >> "
      "TRACE'}\n");
  CHECK(run.start() == RunState::Succeeded);
  REQUIRE(run.trace().size() == 2);
  CHECK(run.trace().front() == run.trace().back());
}

TEST_CASE("no supervisor stays when the run is over or its engine is killed", "[local]") {
  LocalRun run(R"(
  a: {run: 'echo $PPID >> TRACE'}
  b: {run: 'echo $PPID >> TRACE; while [ ! -e TRACE.go ]; do sleep 0.01; done', needs: [a]}
)");
  const pid_t engine = run.start_elsewhere(2);
  std::vector<ProcessIdentity> supervisors;
  for (const char* step : {"a", "b"}) {
    supervisors.push_back(newest_claim(run.directory / "steps" / step / "attempt-1")->supervisor);
  }
  kill_and_reap(engine);
  std::ofstream(run.path() / "trace.go") << "";
  for (const ProcessIdentity& supervisor : supervisors) {
    for (int i = 0; liveness(supervisor) != Liveness::Dead; ++i) {
      REQUIRE(i < 6000);
      std::this_thread::sleep_for(10ms);
    }
  }
}
