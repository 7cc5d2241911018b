#include "engine/batch/observe.h"

#include <csignal>

#include "tests/support/catch.h"

using namespace dlflow;
using namespace std::chrono_literals;
using Ids = std::vector<std::string>;

namespace {

const Time kNow = from_rfc3339("2026-11-21T08:00:00.000Z");

BatchJob slurm(const std::string& id, BatchState state) {
  BatchJob job;
  job.id = id;
  job.state = state;
  job.node = "n1";
  job.end = kNow - 2min;
  return job;
}

const std::vector<OpenJob> kTrain = {{"train", 2, JobState::Running, {"812", "", ""}}};

Observation seen(const std::vector<BatchJob>& queue, const std::vector<BatchJob>& accounting = {},
                 const std::set<std::string>& gone = {}) {
  return observe(kTrain, queue, accounting, gone, kNow, "SLURM");
}

/// Returns the state for an end without a record, or nothing if it is not decided yet.
std::optional<JobState> meaning(const BatchJob& job) {
  const Observation result = seen({}, {job});
  CHECK(result.at_work.empty());
  if (result.events.empty()) return std::nullopt;
  CHECK(result.events.size() == 1);
  return result.events.front().state;
}

}  // namespace

TEST_CASE("each end in SLURM without a record maps to one of dlflow's states", "[slurm]") {
  using S = BatchState;
  const auto [state, ours] =
      GENERATE(table<BatchState, JobState>({{S::Timeout, JobState::TimedOut},
                                            {S::Deadline, JobState::TimedOut},
                                            {S::Cancelled, JobState::Cancelled},
                                            {S::Revoked, JobState::Cancelled},
                                            {S::NodeFail, JobState::Lost},
                                            {S::BootFail, JobState::Lost},
                                            {S::Preempted, JobState::Lost},
                                            {S::OutOfMemory, JobState::Failed},
                                            {S::Failed, JobState::Failed},
                                            {S::Completed, JobState::Lost}}));
  CHECK(meaning(slurm("812", state)) == ours);
}

TEST_CASE("an end names the job, its attempt, its node and the reason", "[slurm]") {
  BatchJob failed = slurm("812", BatchState::Failed);
  failed.exit = 3;
  const Observation result = seen({}, {failed});
  REQUIRE(result.events.size() == 1);
  const JobEvent& end = result.events.front();
  CHECK(end.job == "train");
  CHECK(end.attempt == 2);
  CHECK(end.at == kNow);
  CHECK(end.backend_id == "812");
  CHECK(end.node == "n1");
  CHECK(end.exit == 3);
  CHECK(end.reason == "exit 3");
}

TEST_CASE("a job that root stopped before its beginning has not run: its node failed", "[slurm]") {
  BatchJob job = slurm("812", BatchState::Cancelled);
  job.cancelled_by = "root";
  const auto end = [&job](JobState recorded) {
    const std::vector<OpenJob> open = {{"train", 2, recorded, {"812", "", ""}}};
    return observe(open, {}, std::vector{job}, {}, kNow, "SLURM").events.at(0);
  };
  CHECK(end(JobState::Queued).state == JobState::Lost);
  CHECK(end(JobState::Queued).failed_node == "n1");
  CHECK(end(JobState::Queued).reason ==
        "node n1 could not start it, usually because its prolog failed");
  CHECK(end(JobState::Running).state == JobState::Cancelled);
  SECTION("unless a signal has ended it") { job.signal = 15; }
  SECTION("unless it had no node yet") { job.node.clear(); }
  SECTION("unless another user stopped it") { job.cancelled_by = "ann"; }
  CHECK((end(JobState::Queued).state == JobState::Cancelled) ==
        (job.signal == 15 || job.node.empty() || job.cancelled_by == "ann"));
}

TEST_CASE("a cancelled job without a record waits a moment for accounting to name the user",
          "[slurm]") {
  const OpenJob queued = {"train", 2, JobState::Queued, {"812", "", ""}};
  const OpenJob running = {"train", 2, JobState::Running, {"812", "", ""}};
  BatchJob job = slurm("812", BatchState::Cancelled);
  job.end = kNow - 14s;
  for (const OpenJob& open : {queued, running}) {
    CHECK(observe({&open, 1}, {&job, 1}, {}, {}, kNow, "SLURM").events.empty());
  }
  BatchJob by_root = job;
  by_root.cancelled_by = "root";
  const auto seen_then = observe({&queued, 1}, {&job, 1}, {&by_root, 1}, {}, kNow, "SLURM");
  REQUIRE(seen_then.events.size() == 1);
  CHECK(seen_then.events.front().state == JobState::Lost);
  job.end = kNow - 15s;  // without accounting
  const auto later = observe({&queued, 1}, {&job, 1}, {}, {}, kNow, "SLURM");
  REQUIRE(later.events.size() == 1);
  CHECK(later.events.front().state == JobState::Cancelled);
}

TEST_CASE("a record may appear a minute after the job's end", "[slurm]") {
  BatchJob job = slurm("812", GENERATE(BatchState::Completed, BatchState::Failed));
  job.end = kNow - 59s;
  CHECK(meaning(job) == std::nullopt);
  job.end = kNow - 60s;
  CHECK(meaning(job) != std::nullopt);
}

TEST_CASE("a job that SLURM ended is not waited for", "[slurm]") {
  BatchJob job = slurm("812", BatchState::Timeout);
  job.end = kNow;
  CHECK(meaning(job) == JobState::TimedOut);
}

TEST_CASE("a shell that died of dlflow's own request left no record to wait for", "[slurm]") {
  BatchJob job = slurm("812", BatchState::Failed);
  job.end = kNow;
  job.signal = GENERATE(SIGINT, SIGUSR2);
  CHECK(meaning(job) == JobState::Cancelled);
  CHECK(seen({}, {job}).events.front().reason == "stopped before it began");
  job.signal = SIGSEGV;
  CHECK(meaning(job) == std::nullopt);
}

TEST_CASE("a waiting or running job is at work, and has no end", "[slurm]") {
  const BatchState state =
      GENERATE(BatchState::Pending, BatchState::Configuring, BatchState::Running,
               BatchState::Completing, BatchState::Requeued, BatchState::Unknown);
  // Accounting may still have the end of an earlier start of the same job.
  const Observation result = seen({slurm("812", state)}, {slurm("812", BatchState::NodeFail)});
  CHECK(result.events.empty());
  REQUIRE(result.at_work.size() == 1);
  CHECK(result.at_work.at("train").state == state);
}

TEST_CASE("a job that is not found is lost once the controller denies it", "[slurm]") {
  CHECK(seen({}, {}).events.empty());
  CHECK(seen({}, {}, {"813"}).events.empty());
  const Observation result = seen({slurm("813", BatchState::Running)}, {}, {"812"});
  REQUIRE(result.events.size() == 1);
  CHECK(result.events.front().state == JobState::Lost);
  CHECK(result.events.front().reason ==
        "SLURM no longer lists job 812, and there is no record of its end");
}

TEST_CASE("the queue's state is used while accounting is behind", "[slurm]") {
  const Observation result =
      seen({slurm("812", BatchState::Timeout)}, {slurm("812", BatchState::Running)});
  REQUIRE(result.events.size() == 1);
  CHECK(result.events.front().state == JobState::TimedOut);
}

TEST_CASE("a job that only accounting shows as running keeps its state", "[slurm]") {
  const BatchState state = GENERATE(BatchState::Pending, BatchState::Running);
  const Observation result = seen({}, {slurm("812", state)});
  CHECK(result.at_work.empty());
  CHECK(result.events.empty());
}

TEST_CASE("a preempted job is distinguished from a job whose node failed", "[slurm]") {
  CHECK(seen({}, {slurm("812", BatchState::Preempted)}).events.front().preempted);
  CHECK_FALSE(seen({}, {slurm("812", BatchState::NodeFail)}).events.front().preempted);
}

TEST_CASE("accounting is asked for jobs that the queue does not show", "[slurm]") {
  const std::vector<OpenJob> open = {{"a", 1, JobState::Queued, {"811", "", ""}},
                                     {"b", 1, JobState::Queued, {"812_3", "", ""}},
                                     {"c", 1, JobState::Running, {"813", "", ""}},
                                     {"d", 1, JobState::Running, {"814", "", ""}}};
  const std::vector<BatchJob> queue = {
      slurm("811", BatchState::Pending), slurm("812_2", BatchState::Pending),
      slurm("813", BatchState::Cancelled), slurm("814", BatchState::Running)};
  CHECK(ids_to_ask_for(open, queue) == Ids{"812_3", "813"});
  const auto unknown =
      jobs_nobody_knows(open, queue, std::vector{slurm("813", BatchState::Cancelled)});
  REQUIRE(unknown.size() == 1);
  CHECK(unknown.front().id == "812_3");
}

TEST_CASE("another user's job with the same number is ignored in queue, accounting and controller",
          "[slurm]") {
  const std::vector<OpenJob> open = {
      {"train", 1, JobState::Running, {"812", "demo-1.", ".train.5c1e", kNow}}};
  BatchJob ours = slurm("812", BatchState::Running);
  ours.name = "demo-1.7.train.5c1e";
  ours.submitted = kNow;
  CHECK(observe(open, {&ours, 1}, {}, {}, kNow, "SLURM").at_work.contains("train"));
  BatchJob stranger = ours;
  SECTION("by its name") {
    stranger.name = GENERATE("precious", "demo-1.7.train.5c1f", "demo-12.7.train.5c1e",
                             "demo-1.7.other.5c1e", "demo-1.train.5c1e");
  }
  SECTION("by its submit time") { stranger.submitted = kNow - 1s; }
  const std::vector<BatchJob> there = {stranger};
  CHECK(ids_to_ask_for(open, there) == Ids{"812"});
  CHECK(jobs_nobody_knows(open, there, there).size() == 1);
  CHECK(observe(open, there, {}, {}, kNow, "SLURM").at_work.empty());
  stranger.state = BatchState::Failed;
  const Observation seen = observe(open, {}, {&stranger, 1}, {"812"}, kNow, "SLURM");
  REQUIRE(seen.events.size() == 1);
  CHECK(seen.events.front().state == JobState::Lost);
}

TEST_CASE("the user's job is found beside another user's job with its number", "[slurm]") {
  const std::vector<OpenJob> open = {
      {"train", 1, JobState::Running, {"812", "demo-1.", ".train.5c1e", kNow}}};
  BatchJob ours = slurm("812", BatchState::Timeout);
  ours.name = "demo-1.7.train.5c1e";
  const std::vector<BatchJob> accounting = {slurm("812", BatchState::Failed), ours};
  const Observation seen = observe(open, {}, accounting, {}, kNow, "SLURM");
  REQUIRE(seen.events.size() == 1);
  CHECK(seen.events.front().state == JobState::TimedOut);
}

TEST_CASE("a lost job is looked for only in the queue", "[slurm]") {
  const std::vector<OpenJob> open = {{"train", 1, JobState::Lost, {"812", "", ""}}};
  CHECK(ids_to_ask_for(open, {}).empty());
  CHECK(jobs_nobody_knows(open, {}, {}).empty());
  const std::vector<BatchJob> queue = {slurm("812", BatchState::Running)};
  CHECK(observe(open, queue, {}, {}, kNow, "SLURM").at_work.count("train") == 1);
}

TEST_CASE("a job that took too much memory reports its request", "[slurm]") {
  const std::vector<OpenJob> asked = {
      {"train", 1, JobState::Running, {"812", "", ""}, uint64_t{1} << 30}};
  const auto reason = [&asked](const BatchJob& job) {
    return observe(asked, {}, std::vector<BatchJob>{job}, {}, kNow, "SLURM").events.at(0).reason;
  };
  CHECK(reason(slurm("812", BatchState::OutOfMemory)) == "out of memory, asked for 1.0 GiB");
  BatchJob killed = slurm("812", BatchState::Failed);  // without cgroups
  killed.exit = 0;
  killed.signal = 9;
  CHECK(reason(killed) == "killed by signal 9");
  killed.max_memory_bytes = uint64_t{3} << 30;
  CHECK(reason(killed) == "out of memory, asked for 1.0 GiB");
  killed.signal = SIGTERM;  // the kernel never kills by SIGTERM
  CHECK(reason(killed) == "killed by signal 15");
}

TEST_CASE("a job without a memory request is not reported to exceed it", "[slurm]") {
  BatchJob killed = slurm("812", BatchState::Failed);
  killed.signal = SIGKILL;
  killed.max_memory_bytes = uint64_t{3} << 30;
  CHECK(seen({}, {killed}).events.at(0).reason == "killed by signal 9");
  CHECK(seen({}, {slurm("812", BatchState::OutOfMemory)}).events.at(0).reason == "out of memory");
}

TEST_CASE("a failed node is named if its job has no other node", "[batch]") {
  const auto failed_node = [](const std::string& nodes, BatchState state) {
    BatchJob job = slurm("812", state);
    job.node = nodes;
    return seen({}, {job}).events.front().failed_node;
  };
  CHECK(failed_node("n2", BatchState::NodeFail) == "n2");
  CHECK(failed_node("n2", BatchState::BootFail) == "n2");
  CHECK(failed_node("n[1-2]", BatchState::NodeFail).empty());
  CHECK(failed_node("n1,n7", BatchState::NodeFail).empty());
  CHECK(failed_node("n2", BatchState::Preempted).empty());
  CHECK(failed_node("n2", BatchState::OutOfMemory).empty());
}

TEST_CASE("an element without a turn in an ended task is lost, whatever ended the task",
          "[slurm]") {
  using S = BatchState;
  const S how = GENERATE(S::Timeout, S::NodeFail, S::Preempted, S::OutOfMemory, S::Failed);
  std::vector<OpenJob> open = {{"a", 1, JobState::Running, {"812_0", "", ""}},
                               {"b", 1, JobState::Queued, {"812_0", "", ""}}};
  for (OpenJob& job : open) job.shares_task = true;
  const BatchJob ended = slurm("812_0", how);
  const Observation result = observe(open, {}, {&ended, 1}, {}, kNow, "SLURM");
  REQUIRE(result.events.size() == 2);
  CHECK(result.events[0].state == meaning(slurm("812", how)));
  CHECK(result.events[1].state == JobState::Lost);
  CHECK_THAT(result.events[1].reason,
             Catch::StartsWith("job 812_0 ended before it could start this element: "));
  CHECK(result.events[1].failed_node.empty());
}

TEST_CASE("an element of a shared task may have ended before its task", "[slurm]") {
  using S = BatchState;
  const S how = GENERATE(S::Timeout, S::Cancelled, S::NodeFail, S::Preempted, S::OutOfMemory);
  const OpenJob open = {"a", 1, JobState::Running, {"812_0", "", ""}, 0, true};
  BatchJob ended = slurm("812_0", how);
  ended.end = kNow - 59s;
  CHECK(observe({&open, 1}, {}, {&ended, 1}, {}, kNow, "SLURM").events.empty());
  ended.end = kNow - 60s;
  CHECK(observe({&open, 1}, {}, {&ended, 1}, {}, kNow, "SLURM").events.size() == 1);
}

TEST_CASE("a cancel of a shared task cancels all its elements", "[slurm]") {
  const OpenJob open = {"b", 1, JobState::Queued, {"812_0", "", ""}, 0, true};
  const BatchJob ended = slurm("812_0", BatchState::Cancelled);
  const Observation result = observe({&open, 1}, {}, {&ended, 1}, {}, kNow, "SLURM");
  REQUIRE(result.events.size() == 1);
  CHECK(result.events[0].state == JobState::Cancelled);
}
