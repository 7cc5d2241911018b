#include "engine/run/chain/chain_verbs.h"

#include "tests/support/catch.h"
#include "tests/support/chain_world.h"
#include "tests/support/error_of.h"

// Output of `dlflow status` and other verbs about a chain in a fake batch system.

using namespace dlflow;
using namespace dlflow::test;
using namespace std::chrono_literals;

namespace {

/// A batch system at one moment, with further details of its jobs.
class Snapshot : public FakeBatchSystem {
 public:
  Snapshot(const FakeBatchSystem& now, std::map<std::string, BatchJob> measured,
           std::string never_starts)
      : FakeBatchSystem(now),
        measured_(std::move(measured)),
        never_starts_(std::move(never_starts)) {}

  Accounting accounting(std::span<const std::string>, Time) override {
    Accounting answer{.jobs = {}, .missing = ""};
    for (const auto& [id, job] : measured_) answer.jobs.push_back(job);
    return answer;
  }
  std::vector<BatchJob> queue() override {
    std::vector<BatchJob> jobs = FakeBatchSystem::queue();
    for (BatchJob& job : jobs) {
      job.limit = 20min;
      job.start = Time(1000s);
      job.never_starts |= job.id == never_starts_;
    }
    return jobs;
  }
  std::string pending_in_words(const BatchJob& job, Time) const override {
    return job.never_starts ? "never starts" : "waits for free nodes";
  }

 private:
  std::map<std::string, BatchJob> measured_;
  std::string never_starts_;
};

class VerbsWorld : public ChainWorld {
 public:
  explicit VerbsWorld(const std::string& steps) : ChainWorld(steps) {}

  std::unique_ptr<Verbs> verbs() {
    clock.advance(1s);
    return chain_verbs(std::make_unique<Snapshot>(batch, measured, never_starts),
                       {store, clock, {}, {}});
  }

  /// `dlflow status`
  RunStatus status(Detail detail = Detail::State) {
    return verbs()->refresh({directory}, detail).front();
  }
  JobRow row(const JobName& job, Detail detail = Detail::State) {
    for (JobRow& row : status(detail).jobs) {
      if (row.job == job) return row;
    }
    throw std::logic_error("there is no " + job);
  }

  std::string run() const { return run_name(directory); }

  std::map<std::string, BatchJob> measured;  ///< accounting's records, by id
  std::string never_starts;                  ///< an id
};

BatchJob completed(const std::string& id, double joules) {
  BatchJob job;
  job.id = id;
  job.state = BatchState::Completed;
  job.elapsed = 90s;
  job.cpu_time = 300s;
  job.cpus = 4;
  job.max_memory_bytes = 1 << 20;
  job.energy_joules = joules;
  job.exit = 0;
  return job;
}

constexpr const char* kChain = "  a: {run: ./a}\n  b: {run: ./b, needs: [a]}\n";

}  // namespace

TEST_CASE("a job's usage is accounting's measurement after its end", "[verbs]") {
  VerbsWorld world(kChain);
  world.start();
  world.nodes.begin("811");
  world.nodes.end("811", Succeeded);
  CHECK_FALSE(world.row("a", Detail::Usage).usage.has_value());  // not in accounting yet
  world.measured["811"] = completed("811", 0);
  CHECK_FALSE(world.row("a", Detail::Usage).usage.has_value());  // another user's job
  world.measured["811"].name = world.batch.jobs().at("811").shown.name;
  const JobUsage used = world.row("a", Detail::Usage).usage.value();
  CHECK(used.elapsed == 90s);
  CHECK(used.cpu_time == 300s);
  CHECK(used.cpus == 4);
  CHECK(used.memory_bytes == 1 << 20);
  CHECK_FALSE(used.energy_joules.has_value());
  world.measured["811"].energy_joules = 250;
  CHECK(world.row("a", Detail::Usage).usage->energy_joules == 250);
  world.measured["811"].state = BatchState::Running;  // accounting is late: no number is final
  CHECK_FALSE(world.row("a", Detail::Usage).usage.has_value());
}

TEST_CASE("a queued job shows the reason why it waits, and advice if it never starts", "[verbs]") {
  VerbsWorld world(kChain);
  world.start();
  CHECK(world.row("a").reason == "waits for free nodes");
  CHECK_FALSE(world.row("a").limit.has_value());  // its time has not begun
  world.nodes.begin("811");
  CHECK(world.row("a").state == Running);
  CHECK(world.row("a").limit == 20min);
  CHECK(world.row("a").limit_since == Time(1000s));
  world.nodes.end("811", Succeeded);
  CHECK_FALSE(world.row("a").limit.has_value());
}

TEST_CASE("a job that its batch system never starts is submitted again by the named command",
          "[verbs]") {
  VerbsWorld world(kChain);
  world.start();
  world.nodes.begin("811");
  world.nodes.end("811", Succeeded);
  world.never_starts = "812";  // as after a failed epilog: the record of `a` is good
  CHECK(world.row("b").reason == "never starts; dlflow resubmit " + world.run());
}

TEST_CASE("an element of a shared task shows whose turn it waits for", "[verbs]") {
  VerbsWorld world(
      "  train: {run: ./train, matrix: {n: [1, 2], pack: 2}, resources: {walltime: 1m}}\n");
  world.start();
  CHECK(world.row("train[n=2]").reason == "waits for free nodes");
  REQUIRE(world.nodes.begin("811_0"));
  CHECK(world.row("train[n=1]").reason == "");
  CHECK(world.row("train[n=2]").reason == "waits for its turn in FAKE job 811_0");
}

TEST_CASE("a job that is not submitted shows its state", "[verbs]") {
  VerbsWorld world("  a: {run: ./a}\n  b: {run: ./b}\n");
  world.profile.limits.jobs = 1;
  world.start();
  CHECK(world.row("a").reason == "waits for free nodes");
  CHECK(world.row("b").reason == "not submitted yet: dlflow run --resume " + world.run());
}

TEST_CASE("a job that waits for the login node shows how the run goes on", "[verbs]") {
  VerbsWorld world(
      "  a: {run: ./a}\n"
      "  pack: {run: ./pack, on: login, needs: [a]}\n"
      "  b: {run: ./b, needs: [pack]}\n");
  NodeClass cpu = as_class(world.profile, "cpu", false);
  cpu.batch_options["slurm"]["partition"] = "cpu";
  world.profile.classes = {cpu, as_class(world.profile, "login", true)};
  world.start();
  const std::string later = " on the login node: type dlflow run --resume " + world.run() +
                            " when its parents have ended";
  CHECK(world.row("a").reason == "waits for free nodes");
  CHECK(world.row("pack").reason == "runs" + later);
  CHECK(world.row("b").reason == "waits for pack, which runs" + later);
  CHECK(world.verbs()->announcement(load_run(world.directory)) ==
        world.run() + "  3 jobs on alpha, partition cpu");
}

TEST_CASE("unlisted elements name the step that lists them, and who submits them then", "[verbs]") {
  const bool from_jobs = GENERATE(true, false);
  VerbsWorld world(
      "  split: {run: ./split, outputs: {parts: p.json}}\n"
      "  work: {matrix: {part: \"${{ steps.split.outputs.parts }}\"}, run: ./work}\n");
  world.profile.submit_from_jobs = from_jobs;
  world.start();
  CHECK(world.row("split").reason == "waits for free nodes");
  CHECK(world.row("work[part=?]").reason ==
        "as many as `split` lists" +
            (from_jobs ? std::string(", which then submits them")
                       : "; when it has ended: dlflow run --resume " + world.run()));
  world.nodes.outputs["split"] = {{"parts", {{"value", {"x"}}, {"sha256", "1"}}}};
  world.nodes.run_all();
  CHECK(world.row("work[part=?]").reason ==
        "not submitted yet: dlflow run --resume " + world.run());
}

TEST_CASE("the partitions of a run are named once each", "[verbs]") {
  VerbsWorld world(kChain);
  world.start();
  CHECK(world.verbs()->announcement(load_run(world.directory)) ==
        world.run() + "  2 jobs on alpha");
  VerbsWorld two("  a: {run: ./a, on: cpu}\n  b: {run: ./b, on: gpu}\n  c: {run: ./c, on: cpu}\n");
  NodeClass cpu = as_class(two.profile, "cpu", false), gpu = as_class(two.profile, "gpu", false);
  cpu.batch_options["slurm"]["partition"] = "short";
  gpu.batch_options["slurm"]["partition"] = "long";
  two.profile.classes = {cpu, gpu};
  two.start();
  CHECK(two.verbs()->announcement(load_run(two.directory)) ==
        two.run() + "  3 jobs on alpha, partitions short, long");
}

TEST_CASE("a batch system that does not answer is a problem of the run, which is still shown",
          "[verbs]") {
  VerbsWorld world(kChain);
  world.start();
  CHECK(world.status().problem == "");
  world.batch.silent_queries = 9;
  const RunStatus status = world.status();
  CHECK_THAT(status.problem, Catch::StartsWith("FAKE could not be asked now: "));
  CHECK(status.jobs.size() == 2);
}

TEST_CASE("a held job is shown as held, whatever its record", "[verbs]") {
  VerbsWorld world(kChain);
  world.start();
  world.nodes.begin("811");
  CHECK(world.status().jobs[0].state == JobState::Running);
  world.batch.hold("811");
  const JobRow row = world.status().jobs[0];
  CHECK(row.state == JobState::Queued);
  CHECK(row.reason == "waits for free nodes");  // this batch system's reason for every job
}

TEST_CASE("a run with jobs in the queue is not removed", "[verbs]") {
  VerbsWorld world(kChain);
  world.start();
  CHECK(error_of([&] { world.verbs()->check_idle(world.directory); }) ==
        world.run() + " has jobs in the queue of FAKE; end it first: dlflow cancel " + world.run());
  world.nodes.run_all();
  CHECK_NOTHROW(world.verbs()->check_idle(world.directory));
}

TEST_CASE("a local run whose folder is gone is cancelled without a batch system", "[verbs]") {
  TestRun run("  a: {run: ./a}\n");
  run.start_and_kill(0);
  const std::string name = run_name(run.directory);
  std::filesystem::remove_all(run.directory);
  CHECK(cancel_lost_run(name, run.store, run.clock) == 0);
  CHECK(run.store.status(name).state == RunState::Cancelled);
}

TEST_CASE("a run's end that no node can report is reported by the first verb that finds it",
          "[verbs]") {
  VerbsWorld world("  a: {run: ./a}\nnotify: {command: [\"true\"], on: [end]}\n");
  world.start();
  const auto told = [&world] {
    return std::filesystem::exists(world.directory / "notified/end-1.json");
  };
  CHECK_FALSE(told());
  world.nodes.run_all();
  const Outcome outcome = world.verbs()->resume(world.directory, {});
  CHECK(outcome.state == RunState::Succeeded);
  CHECK(outcome.chain->submitted.empty());
  CHECK(told());
}
