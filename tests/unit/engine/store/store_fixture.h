#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "engine/plan/published.h"
#include "engine/plan/run_directory.h"
#include "engine/store/store.h"
#include "tests/support/known_by_fingerprint.h"
#include "tests/support/parsed.h"
#include "tests/support/temp_dir.h"

namespace dlflow::test {

using enum JobState;

inline Time at(int seconds) { return Time(std::chrono::seconds(1'800'000'000 + seconds)); }

/// A store, and runs for it.
struct StoreFixture {
  TempDir folder;
  std::filesystem::path home = folder.path() / "home";
  std::filesystem::path runs = folder.path() / "runs";
  Store store{home};

  /// A new run on disk, not yet in the store.
  Plan new_run(const std::string& text, Time created = at(0)) {
    Plan plan = make_plan(parsed(text, folder.path()), Profile(), PlanOptions(), store, store);
    create_run_directory(plan, runs, created, folder.write("bin/dlflow", "the program"));
    return plan;
  }

  /// A new run, on disk and in the store.
  Plan stored_run(const std::string& text, Time created = at(0)) {
    Plan plan = new_run(text, created);
    store.create_run(plan);
    return plan;
  }
};

inline JobEvent event(const JobName& job, int attempt, JobState state, int seconds = 0,
                      const std::string& reason = "") {
  JobEvent result;
  result.job = job;
  result.attempt = attempt;
  result.state = state;
  result.at = at(seconds);
  result.reason = reason;
  return result;
}

/// A workflow of three jobs: data, train[lr=0.1] and train[lr=0.5].
inline constexpr const char* kMnist = R"(
name: mnist
steps:
  data: {run: ./fetch, outputs: {path: data}}
  train:
    matrix: {lr: [0.1, 0.5]}
    run: [./train, "${{ steps.data.outputs.path }}"]
)";

inline void run_to_success(Store& store, const Plan& plan, const JobName& job) {
  store.record(
      plan.directory.string(),
      std::vector{event(job, 1, JobState::Submitting, 1), event(job, 1, JobState::Queued, 2),
                  event(job, 1, JobState::Running, 3), event(job, 1, JobState::Succeeded, 4)});
}

/// Returns the succeeded event of a job whose output is `value`.
inline JobEvent succeeded(const JobName& job, const std::string& fingerprint,
                          const std::string& value, int seconds = 0) {
  JobEvent result = event(job, 1, JobState::Succeeded, seconds);
  result.fingerprint = fingerprint_named(fingerprint);
  result.outputs["path"] = {{"value", value}, {"sha256", "0a"}};
  result.metrics = {{"accuracy", 0.9}};
  return result;
}

/// Records the current outputs of a job as its publication.
inline void record_publication(const std::filesystem::path& job_directory) {
  const auto outputs = std::filesystem::canonical(job_directory / "outputs");
  write_publication(outputs.parent_path(), {{"outputs"}, list_published(outputs, "outputs"), {}});
}

/// Writes a supervisor's files: the events of attempt 1 and published outputs.
inline void finish_on_disk(const Plan& plan, uint32_t job, const std::vector<JobEvent>& events) {
  const auto directory = job_directory(plan, job);
  const auto attempt = make_attempt(plan, job, 1);
  AppendFile file(attempt / "events.jsonl");
  for (JobEvent e : events) {
    e.job = {};
    file.append(to_line(e));
  }
  make_directories(attempt / "pass-1/outputs");
  std::filesystem::create_symlink("attempt-1/pass-1/outputs", directory / "outputs");
  record_publication(directory);
}

}  // namespace dlflow::test
