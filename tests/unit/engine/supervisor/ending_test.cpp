#include "engine/supervisor/ending.h"

#include <signal.h>

#include "base/exit_status.h"
#include "engine/supervisor/lost_node.h"
#include "engine/supervisor/saved_state.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace std::chrono_literals;

namespace {

/// A pass whose program has ended.
struct Ended {
  test::TempDir run;
  JobSpec spec;
  AttemptFiles files;
  SupervisorOptions options;
  BeforePass before;
  Watched watched;
  uint64_t kills = 0;  ///< kills for lack of memory, as counted by the scheduler

  explicit Ended(int code, StopCause cause = StopCause::None) {
    spec.run_directory = run.path();
    spec.job_directory = run.path() / "steps/step";
    spec.resources.walltime = 20min;
    files.attempt = spec.job_directory / "attempt-1";
    watched.exit.code = code;
    watched.cause = cause;
  }

  void save_checkpoint() const { run.write("steps/step/checkpoints/n", "1"); }
  void print(const std::string& text) const { run.write("steps/step/attempt-1/stderr", text); }

  JobEvent event() {
    before = look_before_pass(spec, files, options);
    before.checkpoints = "as it was";
    options.memory_kills = [this] { return kills; };
    return ending_of(spec, files, options, before, watched);
  }
  JobEvent without_progress() {
    before = look_before_pass(spec, files, options);
    return ending_of(spec, files, options, before, watched);
  }
  /// Returns the end of a program that printed `text`. \param checkpoints  the earlier ones; by
  /// default the current ones.
  JobEvent end_of(const std::string& text, const std::string& checkpoints = "") {
    before = look_before_pass(spec, files, options);
    if (!checkpoints.empty()) before.checkpoints = checkpoints;
    print(text);
    return ending_of(spec, files, options, before, watched);
  }
};

constexpr const char* kMpirunLostNode =
    "--------------------------------------------------------------------------\n"
    "ORTE has lost communication with a remote daemon.\n\n"
    "  HNP daemon   : [[4701,0],0] on node b1\n"
    "  Remote daemon: [[4701,0],1] on node b2.cluster\n\n"
    "This is usually due to either a failure of the TCP network\n"
    "--------------------------------------------------------------------------\n";
constexpr const char* kSrunLostNode =
    "error: rank 1 (node b2) died: killed, crashed, or its node went down\n"
    "srun: error: b1: task 0: Exited with exit code 75\n"
    "srun: forcing job termination\n"
    "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
    "srun: error: Timed out waiting for job step to complete\n";

using Kinds = std::pair<std::optional<JobState>, std::string>;

Kinds kinds(const JobEvent& event) { return {event.state, event.reason}; }

}  // namespace

TEST_CASE("the meaning of a program's end follows from its status and the requests", "[ending]") {
  using enum JobState;
  const std::string limit = "walltime of 20:00 reached";
  CHECK(kinds(Ended(3).event()) == Kinds{Failed, "exit 3"});
  CHECK(kinds(Ended(kExitAgain).event()) ==
        Kinds{Queued, "saved a checkpoint and asked to be run again"});
  CHECK(kinds(Ended(kExitAgain).without_progress()) ==
        Kinds{Failed, "exit 75 (run me again), but no progress since the last checkpoint"});
  CHECK(kinds(Ended(1, StopCause::Walltime).event()) == Kinds{TimedOut, limit});
  CHECK(kinds(Ended(kExitAgain, StopCause::Walltime).event()) ==
        Kinds{Queued, limit + "; continues from its checkpoint"});
  CHECK(kinds(Ended(kExitAgain, StopCause::Walltime).without_progress()) ==
        Kinds{TimedOut, limit + "; no progress since the last checkpoint"});
  for (const StopCause cause : {StopCause::Requested, StopCause::Terminated}) {
    CHECK(kinds(Ended(1, cause).event()) == Kinds{Cancelled, "stopped on request"});
    CHECK(kinds(Ended(kExitAgain, cause).event()) ==
          Kinds{Cancelled, "stopped on request, checkpoint saved"});
  }
  Ended terminated(1, StopCause::Terminated);
  terminated.options.requeues = true;
  CHECK(kinds(terminated.event()) == Kinds{std::nullopt, "stopped by SIGTERM"});
  Ended requested(1, StopCause::Requested);
  requested.options.requeues = true;
  CHECK(kinds(requested.event()) == Kinds{Cancelled, "stopped on request"});
  Ended unlimited(1, StopCause::Walltime);
  unlimited.spec.resources.walltime = 0s;
  CHECK(kinds(unlimited.event()) == Kinds{TimedOut, "time limit of the cluster reached"});
}

TEST_CASE("an exit status above 128 is a signal if that number exists", "[ending]") {
  const auto reason = [](int code) { return Ended(code).event().reason; };
  CHECK(reason(128) == "exit 128");
  CHECK(reason(128 + SIGTERM) == "killed by signal 15 (Terminated)");
  CHECK(reason(128 + SIGKILL) == "killed by signal 9 (Killed)");
  CHECK(reason(128 + 64).starts_with("killed by signal 64 ("));
  CHECK(reason(128 + 65) == "exit 193");
  CHECK(reason(255) == "exit 255");
}

TEST_CASE(
    "a rank that was killed for lack of memory decides the end if a retry may have more memory",
    "[ending]") {
  const auto code = [](Ended& ended) {
    ended.spec.retry.on = {RetryCause::OutOfMemory};
    ended.kills = 1;
    return ended.event().exit;
  };
  Ended again(kExitAgain);
  CHECK(code(again) == 128 + SIGKILL);
  Ended failed(3);
  CHECK(code(failed) == 3);
  Ended stopped(kExitAgain, StopCause::Walltime);
  CHECK(code(stopped) == kExitAgain);
  Ended well(0);
  CHECK(code(well) == 128 + SIGKILL);
  Ended not_again(kExitAgain);
  not_again.kills = 1;
  not_again.spec.retry.on = {RetryCause::Failure};
  CHECK(not_again.event().exit == kExitAgain);
}

TEST_CASE("a program that ran out of memory is reported with its request", "[ending]") {
  const auto reason = [](int ranks, uint64_t asked, uint64_t given) {
    Ended ended(128 + SIGKILL);
    ended.kills = 1;
    ended.spec.resources.ranks = ranks;
    ended.spec.resources.memory_bytes = asked;
    ended.options.memory_bytes = given;
    return ended.event().reason;
  };
  const std::string out = "out of memory (killed by the kernel)";
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  CHECK(reason(1, 0, 0) == out);
  CHECK(reason(2, kGiB, 0) == out + ", asked for 1.0 GiB");
  CHECK(reason(1, kGiB, 2 * kGiB) == out + ", asked for 2.0 GiB");
  CHECK(reason(2, kGiB, 2 * kGiB) == out + ", asked for 2.0 GiB per node");
}

namespace {

/// A pass of a step with `checkpoint: {newer: …}`.
struct Saving : Ended {
  Saving(int code, StopCause cause, const std::string& pattern = "ckpt/*.pt") : Ended(code, cause) {
    spec.checkpoint.emplace().newer = pattern;
  }
};

Kinds end_after_save(const Ended& ended, const std::string& file = "ckpt/last.pt") {
  const BeforePass before = look_before_pass(ended.spec, ended.files, ended.options);
  ended.run.write("steps/step/checkpoints/" + file, "weights");
  const JobEvent end = ending_of(ended.spec, ended.files, ended.options, before, ended.watched);
  const bool saved =
      newer_file(before.saved, saved_files(ended.spec, ended.spec.checkpoint->newer)).has_value();
  CHECK(end.exit ==
        (saved && ended.watched.cause != StopCause::None ? kExitAgain : ended.watched.exit.code));
  return kinds(end);
}

}  // namespace

TEST_CASE("a program without exit status 75 has saved if one of its files is newer", "[ending]") {
  using enum JobState;
  const std::string limit = "walltime of 20:00 reached";
  for (const int code : {0, 1, 75, 128 + SIGTERM, 128 + SIGKILL}) {
    CHECK(end_after_save(Saving(code, StopCause::Walltime)) ==
          Kinds{Queued, limit + "; continues from ckpt/last.pt"});
  }
  CHECK(end_after_save(Saving(1, StopCause::Walltime, "ckpt/step-*"), "ckpt/step-3/rank0.pt") ==
        Kinds{Queued, limit + "; continues from ckpt/step-3"});
  CHECK(end_after_save(Saving(1, StopCause::Requested)) ==
        Kinds{Cancelled, "stopped on request, checkpoint saved"});
  Saving terminated(128 + SIGTERM, StopCause::Terminated);
  terminated.options.requeues = true;
  CHECK(end_after_save(terminated) == Kinds{std::nullopt, "stopped by SIGTERM, checkpoint saved"});
}

TEST_CASE(
    "a step without a newer file has timed out if it was asked to save, or else keeps its exit "
    "status",
    "[ending]") {
  using enum JobState;
  const std::string limit = "walltime of 20:00 reached";
  CHECK(end_after_save(Saving(1, StopCause::None)) == Kinds{Failed, "exit 1"});
  const std::string nothing_new = limit + ", and no file that matches ckpt/*.pt is new";
  for (const int code : {0, 1, 128 + SIGTERM}) {  // also 0: it is unknown whether the work was done
    for (const char* other : {"ckpt/last.tmp", "elsewhere/last.pt"}) {
      CHECK(end_after_save(Saving(code, StopCause::Walltime), other) ==
            Kinds{TimedOut, nothing_new});
    }
  }
  CHECK(end_after_save(Saving(0, StopCause::Requested), "ckpt/last.tmp") ==
        Kinds{Cancelled, "stopped on request"});
  CHECK(end_after_save(Saving(kExitAgain, StopCause::Walltime), "ckpt/last.tmp") ==
        Kinds{TimedOut, limit + "; no progress since the last checkpoint"});
  const Saving again(1, StopCause::Walltime);  // P5: its only file is from an earlier pass
  again.run.write("steps/step/checkpoints/ckpt/last.pt", "weights");
  const BeforePass before = look_before_pass(again.spec, again.files, again.options);
  CHECK(kinds(ending_of(again.spec, again.files, again.options, before, again.watched)) ==
        Kinds{TimedOut, nothing_new});
}

TEST_CASE("the newest checkpoint is named in the form of its pattern", "[ending]") {
  using namespace std::chrono_literals;
  test::TempDir run;
  JobSpec spec;
  spec.job_directory = run.path();
  const auto now = std::filesystem::file_time_type::clock::now();
  const auto write = [&](const std::string& name, std::chrono::seconds ago) {
    run.write("checkpoints/" + name, "1");
    std::filesystem::last_write_time(run.path() / "checkpoints" / name, now - ago);
  };
  write("out/checkpoint-50/a.bin", 20s);
  write("out/checkpoint-100/a.bin", 10s);
  write("out/checkpoint-100/z.bin", 9s);
  const SavedFiles all = saved_files(spec, "out/checkpoint-*");
  CHECK(newer_file({}, all) == "out/checkpoint-100");
  CHECK(newer_file(all, all) == std::nullopt);
}

TEST_CASE("an empty file is not a checkpoint, and a removed one is not progress", "[ending]") {
  test::TempDir run;
  JobSpec spec;
  spec.job_directory = run.path();
  run.write("checkpoints/ckpt/a.pt", "1");
  run.write("checkpoints/ckpt/b.pt", "1");
  const SavedFiles before = saved_files(spec, "ckpt/*.pt");
  CHECK(before.size() == 2);
  run.write("checkpoints/ckpt/c.pt", "");
  std::filesystem::remove(run.path() / "checkpoints/ckpt/a.pt");
  CHECK(newer_file(before, saved_files(spec, "ckpt/*.pt")) == std::nullopt);
  run.write("checkpoints/ckpt/b.pt", "12");
  CHECK(newer_file(before, saved_files(spec, "ckpt/*.pt")) == "ckpt/b.pt");
}

TEST_CASE("the first bad end of a task is read from srun's output", "[ending]") {
  CHECK(bad_end_of_task("step 12\nsrun: error: b1: task 0: Exited with exit code 75\n"
                        "srun: error: b2: tasks 1-3: Killed\n") == 75);
  CHECK(bad_end_of_task("srun: error: b2: tasks 1-3: Killed\n") == 128 + SIGKILL);
  CHECK_FALSE(
      bad_end_of_task("srun: error: Unable to create step: Memory required by task is not "
                      "available\n the srun: error: b1: task 0: Exited\n"));
}

TEST_CASE("the lost node is read from the launcher's output", "[ending]") {
  CHECK(lost_node(kMpirunLostNode) == "b2");
  CHECK(lost_node(kSrunLostNode) == "b2");
  CHECK(lost_node("srun: got SIGCONT\nsrun: error: Node failure on b2\n") == "b2");
  CHECK(lost_node("error: rank 1 (node b2) died: killed, crashed, or its node went down\n"
                  "srun: error: Node failure on b1\n") == "b2");
  CHECK(
      lost_node("srun: error: Task launch for StepId=4.0 failed on node b2: Unspecified error\n") ==
      "b2");
  CHECK(lost_node("srun: error: task 1 launch failed: Unspecified error\n") == "");
  CHECK(lost_node("An ORTE daemon has unexpectedly failed after launch and before\n") == "");
  CHECK(lost_node("srun: error: Node failure on $(touch x),b2\n") == "");
  CHECK(lost_node("Remote daemon: restarted on node b2\n") == std::nullopt);
  CHECK(lost_node("error: rank 1 (node b2): silent for 60 s; its process is stopped, or its node "
                  "cannot be reached\nsrun: error: Timed out waiting for job step to complete\n") ==
        "b2");
  CHECK(lost_node("PRTE has lost communication with a remote daemon.") == "");
  CHECK(lost_node("srun: error: Timed out waiting for job step to complete\n") == "");
  CHECK(lost_node("error: ranks 1 (node b2), 2 (node b3) died: killed, crashed, or its node went "
                  "down\nsrun: error: Timed out waiting for job step to complete\n") == "");
  CHECK_FALSE(
      lost_node("error: rank 1 (node b2) died: killed, crashed, or its node went down\n"
                "srun: error: b2: task 1: Killed\n"));
}

TEST_CASE("a lost node is not a failure of the program, under any launcher", "[ending]") {
  const auto [code, cause, text] = GENERATE(table<int, StopCause, const char*>(
      {{205, StopCause::None, kMpirunLostNode}, {0, StopCause::LostRank, kSrunLostNode}}));
  Ended lost(code, cause);
  lost.spec.resources.ranks = 2;
  SECTION("the job is lost before it has saved anything") {
    const JobEvent end = lost.end_of(text);
    CHECK(kinds(end) == Kinds{JobState::Lost, "node b2 failed"});
    CHECK(end.failed_node == "b2");
    CHECK(end.exit != kExitAgain);  // nothing of the pass is kept
  }
  SECTION("the job goes on after it has saved") {
    lost.save_checkpoint();
    const JobEvent end = lost.end_of(text, "as it was");
    CHECK(end.state == JobState::Queued);
    CHECK(end.exit == kExitAgain);
    CHECK(end.failed_node == "b2");
  }
}

TEST_CASE("a lost node does not change a requested end", "[ending]") {
  Ended stopped(143, StopCause::Requested);
  const JobEvent end = stopped.end_of(kSrunLostNode);
  CHECK(end.state == JobState::Cancelled);
}

TEST_CASE("output of a program with one rank names no failed node", "[ending]") {
  Ended own(1);  // its script calls srun
  const JobEvent end = own.end_of(kSrunLostNode);
  CHECK(end.state == JobState::Failed);
  CHECK(end.failed_node.empty());
}

TEST_CASE("a launcher that was ended because of a rank has that rank's status", "[ending]") {
  Ended ended(0, StopCause::LostRank);
  const JobEvent end = ended.end_of(
      "srun: error: b1: task 0: Exited with exit code 3\n"
      "srun: error: b2: task 1: Killed\n");
  CHECK(kinds(end).first == JobState::Failed);
  CHECK(end.exit == 3);
  CHECK(end.failed_node.empty());
}

namespace {

/// A pass of two ranks under srun 24.11; SLURM has killed one because of the other.
struct CutShort : Ended {
  explicit CutShort(StopCause cause = StopCause::None) : Ended(128 + SIGKILL, cause) {
    spec.resources.ranks = 2;
    spec.launcher = {"srun", "--mpi=pmix", "-n", "2"};
    save_checkpoint();
  }
  JobEvent end_of(const std::string& first, const std::string& checkpoints = "as it was") {
    return Ended::end_of(
        first +
            "slurmstepd-b1: error: *** STEP 4.0 ON b1 CANCELLED AT 2026-11-29T23:00:49 ***\n"
            "srun: error: b1: task 0: Killed\n",
        checkpoints);
  }
};

constexpr const char* kAsked =
    "error: rank 1 (node b2): killed by signal 9 (Killed)\n"
    "srun: error: b2: task 1: Exited with exit code 75\n";

}  // namespace

TEST_CASE("the rank that asked for another pass decides, not the ranks that SLURM then killed",
          "[ending]") {
  using enum JobState;
  const JobEvent end = CutShort().end_of(kAsked);
  CHECK(kinds(end) == Kinds{Queued,
                            "saved a checkpoint and asked to be run again; error: rank 1 (node "
                            "b2): killed by signal 9 (Killed)"});
  CHECK(end.exit == kExitAgain);
  CHECK(CutShort().end_of(kAsked, "").state == Failed);  // no progress
}

TEST_CASE("similar text is not taken for a rank that asked for another pass", "[ending]") {
  using enum JobState;
  const auto state = [](CutShort ended, const std::string& first = kAsked) {
    return ended.end_of(first).state;
  };
  CHECK(state(CutShort(StopCause::Requested)) == Cancelled);  // scancel, dlflow cancel
  CHECK(state(CutShort(StopCause::Terminated)) == Cancelled);
  CHECK(state(CutShort(StopCause::Walltime)) == TimedOut);
  CHECK(state(CutShort(), "srun: error: b2: task 1: Exited with exit code 1\n") == Failed);
  CHECK(state(CutShort(), "srun: error: b2: task 1: Killed\n") == Failed);
  CHECK(state(CutShort(), "") == Failed);  // scancel of the step alone
  CutShort own;                            // its script calls srun
  own.spec.launcher = {"mpirun", "-np", "2"};
  CHECK(own.end_of(kAsked).state == Failed);
  CutShort no_memory;  // the kernel killed that rank, and more memory may follow
  no_memory.spec.retry.on = {RetryCause::OutOfMemory};
  no_memory.before = look_before_pass(no_memory.spec, no_memory.files, no_memory.options);
  no_memory.options.memory_kills = [] { return uint64_t{1}; };
  no_memory.print(kAsked);
  CHECK(ending_of(no_memory.spec, no_memory.files, no_memory.options, no_memory.before,
                  no_memory.watched)
            .exit == 128 + SIGKILL);
}
