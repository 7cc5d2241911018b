#pragma once

#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "engine/batch/batch_file.h"
#include "engine/batch/job_exec.h"
#include "engine/plan/run_directory.h"
#include "engine/supervisor/claim.h"
#include "engine/supervisor/supervisor.h"
#include "tests/support/catch.h"
#include "tests/support/demo_spec.h"
#include "tests/support/in_child.h"
#include "tests/support/syscalls.h"
#include "tests/support/temp_dir.h"

namespace dlflow::test {

inline constexpr int kTryAgain = 75;
inline constexpr int kNotTraced = 98;  ///< system calls cannot be made to fail here

/// One task of a batch, executed in a child process as in a SLURM job. `{run}` in its script is the
/// folder of the run.
class Job {
 public:
  explicit Job(std::string script) : spec(demo_spec(run.path(), with_run(std::move(script)))) {}

  /// The exit status of a SLURM job.
  int execute(const std::string& id = "812") const {
    const std::filesystem::path file = batch_file(run.path(), {1, 1});
    BatchLines lines;
    lines.add({1, 0, attempt_number, spec});
    for (const JobSpec& other : others) lines.add({1, 0, 1, other});
    std::filesystem::remove(file);
    write_batch_file(file, lines.text());
    Allocation allocation;
    allocation.id = id;
    allocation.patience = patience;
    allocation.reserves_statuses = reserves_statuses;
    allocation.own_signals = own_signals;
    allocation.controller_patience = std::chrono::seconds(2);
    allocation.requeue = [this](const std::string& job) {
      if (refuses_requeue) throw Error(Errc::InvalidInput, "requeue is disabled");
      std::ofstream(run.path() / "asked", std::ios::app) << "x";
      if (content("asked").size() <= silent_times) throw Error(Errc::Unavailable, "no controller");
      std::ofstream(run.path() / "requeued", std::ios::app) << job << "\n";
    };
    allocation.is_at_work = [this](const JobIdentity& job) {
      if (warned_early) ::raise(SIGUSR1);
      return at_work == job.id;
    };
    if (kills_memory) {
      allocation.memory_kills = [this] { return content("killed").size(); };
    }
    allocation.memory_bytes = memory_bytes;
    allocation.raise_memory = [this](const std::string&, uint64_t bytes) {
      std::ofstream(run.path() / "raised", std::ios::app) << (bytes >> 20) << "\n";
    };
    allocation.raise_time_limit = [this](const std::string&, std::chrono::minutes limit) {
      std::ofstream(run.path() / "time", std::ios::app) << limit.count() << "\n";
    };
    const auto work = [&] { return job_exec(file, 1, 0, allocation); };
    if (syncs_fail) {
      return run_without(SYS_fdatasync, EIO, [&] { exit_with(work); }).value_or(kNotTraced);
    }
    const pid_t child = begin_child(work);
    if (renews_claim) {
      std::this_thread::sleep_for(std::chrono::seconds(2));  // until it has read the claim's time
      renew_claim(attempt(), 1);
    }
    return wait_for(child).code;
  }

  /// A further element that shares the task.
  JobSpec& add(const JobName& name, const std::string& script) {
    JobSpec& other = others.emplace_back(spec);
    other.job = name;
    other.run_command = with_run(script);
    other.job_directory = run.path() / "steps" / name.text();
    return other;
  }
  JobEvent last_of(const JobName& name) const {
    return attempt_events(run.path() / "steps" / name.text(), name, 1).back();
  }
  /// Returns the states on record, as "running succeeded".
  std::string history_of(const JobName& name) const {
    std::string states;
    for (const JobEvent& event : attempt_events(run.path() / "steps" / name.text(), name, 1)) {
      if (!event.state) continue;
      states += (states.empty() ? "" : " ") + std::string(dlflow::name(*event.state));
    }
    return states;
  }

  std::filesystem::path attempt() const { return attempt_directory(spec.job_directory, 1); }
  JobEvent last() const { return attempt_events(spec.job_directory, spec.job, 1).back(); }
  std::string content(const std::string& name) const {
    return read_file_if_exists(run.path() / name).value_or("");
  }

  /// Leaves a pass whose node failed while its program ran.
  void die_in_a_pass() const {
    make_directories(attempt());
    write_file_atomic(attempt() / "job.json", to_json(spec).dump());
    CHECK(claim_pass(attempt(), 1, "812"));
    JobEvent running;
    running.state = JobState::Running;
    AppendFile(attempt() / "events.jsonl").append(to_line(running));
  }

  /// Starts a pass on a node that is unreachable but still runs.
  pid_t begin_elsewhere() const {
    make_directories(attempt());
    write_file_atomic(attempt() / "job.json", to_json(spec).dump());
    SupervisorOptions options;
    options.backend_id = "812";
    options.requeues = true;
    options.look_again = std::chrono::hours(1);
    return begin_child([&] { return supervise(attempt(), 1, options); });
  }

  std::string with_run(std::string script) const {
    for (size_t at = 0; (at = script.find("{run}")) != script.npos;) {
      script.replace(at, 5, run.path().string());
    }
    return script;
  }

  TempDir run;
  JobSpec spec;
  std::vector<JobSpec> others;
  int attempt_number = 1;
  std::chrono::milliseconds patience{0};
  bool renews_claim = false;  ///< the supervisor of its first attempt
  bool refuses_requeue = false;
  bool reserves_statuses = false;
  std::vector<int> own_signals;
  size_t silent_times = 0;  ///< the number of requeue requests without an answer of the controller
  std::string at_work;      ///< the id of another SLURM job that waits or runs
  uint64_t memory_bytes = 0;
  bool syncs_fail = false;
  bool warned_early = false;  ///< a walltime warning before the supervisor exists
  bool kills_memory = false;  ///< the number of kills by the kernel is the length of {run}/killed
};

}  // namespace dlflow::test
