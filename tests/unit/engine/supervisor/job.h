#pragma once

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "engine/plan/job.h"
#include "engine/plan/run_directory.h"
#include "engine/supervisor/launch.h"
#include "engine/supervisor/supervisor.h"
#include "tests/support/catch.h"
#include "tests/support/demo_spec.h"
#include "tests/support/in_child.h"
#include "tests/support/temp_dir.h"

namespace dlflow::test {

/// One job of a run directory, supervised in a child process as by the back ends.
class Job {
 public:
  explicit Job(const std::string& script) : spec(demo_spec(run.path(), script)) {
    spec.sees_run = true;
  }

  std::filesystem::path attempt() const { return attempt_directory(spec.job_directory, 1); }

  /// Returns the folder that its program writes to in pass `pass`.
  std::filesystem::path outputs(int pass = 1) const {
    return AttemptFiles{attempt(), 1, pass}.outputs();
  }

  void write_spec() const {
    run.write(std::filesystem::relative(attempt() / "job.json", run.path()), to_json(spec).dump());
  }

  pid_t begin(int pass = 1) const {
    write_spec();
    return begin_child([&] { return supervise(attempt(), pass, options); });
  }

  /// Begins it, and waits until it has made `output`.
  pid_t begin_until(const std::string& output) const {
    const pid_t child = begin();
    wait_for(outputs() / output);
    return child;
  }

  /// Sends it `signal` once it has made `output`.
  pid_t begin_and_signal(const std::string& output, int signal) const {
    const pid_t child = begin_until(output);
    ::kill(child, signal);
    return child;
  }

  /// Runs it to its end and returns the last event.
  JobEvent finish(pid_t child) const {
    REQUIRE(dlflow::wait_for(child).code == int(Supervision::Recorded));
    return attempt_events(spec.job_directory, spec.job, 1).back();
  }
  JobEvent execute(int pass = 1) const { return finish(begin(pass)); }

  void wait_for(const std::filesystem::path& file) const {
    for (int i = 0; i < 6000 && !std::filesystem::exists(file); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    REQUIRE(std::filesystem::exists(file));
  }

  TempDir run;
  JobSpec spec;
  SupervisorOptions options;
};

/// A job whose program saves on request.
struct SavingJob : Job {
  explicit SavingJob(const std::string& script) : Job(script) {
    spec.checkpoint = CheckpointPolicy{};
  }
};

}  // namespace dlflow::test
