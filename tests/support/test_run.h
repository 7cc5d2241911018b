#pragma once

#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <variant>
#include <vector>

#include "engine/model/parse.h"
#include "engine/run/local/local_run.h"
#include "tests/support/catch.h"
#include "tests/support/fake_backend.h"
#include "tests/support/new_store.h"
#include "tests/support/temp_dir.h"

namespace dlflow {

inline std::ostream& operator<<(std::ostream& stream, JobState state) {
  return stream << name(state);
}

}  // namespace dlflow

namespace dlflow::test {

using enum JobState;
using Names = std::vector<std::string>;
using States = std::map<std::string, JobState>;

/// A list, a step for each of its elements, and one that takes all their outputs.
inline constexpr const char* kFanOut = R"(
  split: {run: ./split, outputs: {parts: p.json}}
  work: {matrix: {part: "${{ steps.split.outputs.parts }}"}, run: ./work, outputs: {o: o}}
  merge: {run: [./merge, "${{ join(steps.work.outputs.o, ' ') }}"]}
)";

/// Stores all events.
class RecordingObserver : public Observer {
 public:
  void began(const Plan&, const RunStatus& status) override {
    heard.clear();
    for (const JobRow& job : status.jobs) states[job.job] = job.state;
  }
  void extended(const Plan&, const RunStatus& status) override {
    states.clear();
    for (const JobRow& job : status.jobs) states[job.job] = job.state;
    heard.emplace_back("extended");
  }
  void event(const JobEvent& event) override {
    if (!event.state) return;
    states[event.job] = *event.state;
    heard.push_back(event.job + " " + std::string(name(*event.state)));
    if (on_event) on_event(event);
  }
  void tick(Time) override { ++ticks; }
  void stopping() override { heard.emplace_back("stopping"); }
  void ended(RunState state, Time) override { heard.push_back("run " + std::string(name(state))); }

  std::vector<std::string> heard;
  int ticks = 0;
  States states;
  std::function<void(const JobEvent&)> on_event;
};

/// Runs of a workflow in their own folder.
class RunFolder {
 public:
  /// \param steps  the YAML below `steps:`.
  explicit RunFolder(const std::string& steps)
      : file_(folder_.write("test.yaml", "name: test\nsteps:\n" + steps)),
        program_(folder_.write("dlflow", "")),
        store(with_tables(folder_.path() / "state")) {}

  /// Plans the workflow that is in the file now.
  Plan plan(const Profile& profile = {}) {
    auto parsed = parse_workflow(file_);
    if (const auto* diagnostics = std::get_if<Diagnostics>(&parsed)) {
      throw Error(Errc::InvalidInput, to_string(diagnostics->front()));
    }
    Profile local = profile;
    local.runs = folder_.path() / "runs";
    local.cache = folder_.path() / "cache";
    return make_plan(std::get<Workflow>(std::move(parsed)), local, {}, store, store);
  }

  /// A plan with a folder; `directory` is the newest plan's.
  Plan created_plan(const Services& services) {
    Plan created = plan();
    create_run(created, services, program_);
    directory = created.directory;
    return created;
  }

  /// Replaces the steps in the file.
  void rewrite(const std::string& steps) {
    folder_.write("test.yaml", "name: test\nsteps:\n" + steps);
  }

  States states() {
    States result;
    for (const JobRow& job : store.status(directory.string()).jobs) result[job.job] = job.state;
    return result;
  }

  int attempt(const JobName& job) {
    for (const JobRow& row : store.status(directory.string()).jobs) {
      if (row.job == job) return row.attempt;
    }
    return -1;
  }

  /// The reason for a job's state.
  std::string reason(const JobName& job) {
    for (const JobRow& row : store.status(directory.string()).jobs) {
      if (row.job == job) return row.reason;
    }
    return "";
  }

  RunState state() { return store.status(directory.string()).state; }
  const std::filesystem::path& path() const { return folder_.path(); }
  /// The program that the run freezes.
  const std::filesystem::path& program() const { return program_; }

 private:
  TempDir folder_;
  std::filesystem::path file_;
  std::filesystem::path program_;

 public:
  Store store;
  std::filesystem::path directory;
};

/// Runs on a FakeBackend.
class TestRun : public RunFolder {
 public:
  explicit TestRun(const std::string& steps) : RunFolder(steps) {}

  RunResult start(const RunOptions& options = {}) {
    return start_run(created_plan(services()), services(), options);
  }
  RunResult resume(const RunOptions& options = {}) {
    backend.forget_news();
    return resume_run(directory, services(), options);
  }
  RunResult resubmit(const std::vector<std::string>& names = {}, const RunOptions& options = {}) {
    return resubmit_run(directory, {.names = names}, services(), options);
  }
  RunResult submit_again(const PlanAgain& again) {
    return resubmit_run(directory, again, services());
  }
  /// Starts the run and kills its engine after `waits` polls of the back end.
  void start_and_kill(int waits) {
    backend.waits_until_killed = waits;
    CHECK_THROWS_AS(start(), Killed);
    backend.waits_until_killed = -1;
  }
  bool cancel() {
    backend.forget_news();
    return cancel_run(directory, services());
  }

  Services services() { return {store, backend, observer, clock}; }

  FakeClock clock;
  FakeBackend backend{clock};
  RecordingObserver observer;
};

}  // namespace dlflow::test
