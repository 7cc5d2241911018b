#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/plan/run_directory.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_supervisor.h"

namespace dlflow::test {

/// A machine on which supervisors begin, end and die when a test decides, without processes. It
/// outlives the engines of a run. Passes have names: "train#1.2" is pass 2 of attempt 1.
class FakeMachine : public Backend {
 public:
  explicit FakeMachine(FakeClock& clock) : clock_(clock) {}

  /// Called while the engine waits. May throw Killed.
  std::function<void()> while_waiting;

  std::map<std::string, Json> outputs;   ///< by job
  std::map<std::string, int> successes;  ///< by job
  std::vector<std::string> overlaps;     ///< jobs that began while another of their passes ran
  std::vector<std::string> repeated;     ///< jobs that began after they had succeeded
  int num_begun = 0;

  /// The submitted passes that have not begun; the running ones.
  std::vector<std::string> waiting() const { return names_of(Pass::State::HandedOver); }
  std::vector<std::string> running() const { return names_of(Pass::State::Running); }
  bool is_asked_to_end(const std::string& name) const { return passes_.at(name).asked_to_end; }

  void begin(const std::string& name) {
    Pass& pass = passes_.at(name);
    const JobName& job = pass.submission.name;
    for (const auto& [other, known] : passes_) {
      const bool runs = known.state == Pass::State::Running;
      if (runs && known.submission.name == job) overlaps.push_back(job);
    }
    if (successes.contains(job)) repeated.push_back(job);
    ++num_begun;
    pass.state = Pass::State::Running;
    record(pass, JobState::Running);
  }

  void end(const std::string& name, JobState state) {
    Pass& pass = passes_.at(name);
    if (state == JobState::Succeeded) ++successes[pass.submission.name];
    pass.state = Pass::State::Ended;
    record(pass, state);
  }

  /// The supervisor of a pass dies with its program: nothing is recorded.
  void kill(const std::string& name) { passes_.at(name).state = Pass::State::Ended; }

  /// Loses the submissions that have not begun, as when a launcher is killed.
  void lose_waiting() {
    std::erase_if(passes_,
                  [](const auto& pass) { return pass.second.state == Pass::State::HandedOver; });
  }

  // Backend

  void check(const Plan&) const override {}
  void begin(const std::filesystem::path&) override {
    watched_.clear();
    read_here_.clear();
  }
  bool has_room(const Resources&) const override { return watched_.size() < kRoom; }

  void submit(const Submission& submission) override {
    const std::string name = name_of(submission);
    passes_.try_emplace(name, Pass{.submission = submission});  // runs once
    watch(name, submission);
  }

  Recovery recover(const Submission& submission) override {
    const std::string name = name_of(submission);
    const auto pass = passes_.find(name);
    if (pass == passes_.end() || pass->second.state == Pass::State::HandedOver) {
      return Recovery::NotStarted;
    }
    EventTail tail(events_file(submission), submission.events_read);
    const bool runs = pass->second.state == Pass::State::Running;
    if (!runs && tail.read().empty()) return Recovery::Vanished;
    watch(name, submission);
    return Recovery::Watched;
  }

  bool withdraw(const Submission& submission) override {
    Pass& pass =
        passes_.try_emplace(name_of(submission), Pass{.submission = submission}).first->second;
    if (pass.state == Pass::State::HandedOver) pass.state = Pass::State::Withdrawn;
    return pass.state == Pass::State::Withdrawn;
  }

  std::vector<Update> wait(std::chrono::milliseconds timeout, int) override {
    while_waiting();
    clock_.advance(timeout);
    std::vector<Update> updates;
    for (auto watched = watched_.begin(); watched != watched_.end();) {
      const bool over = read(watched->first, watched->second, updates);
      watched = over ? watched_.erase(watched) : std::next(watched);
    }
    return updates;
  }

  void stop(uint32_t job, Stop how) override {
    for (const auto& [name, watched] : watched_) {
      Pass& pass = passes_.at(name);
      if (pass.submission.job != job || pass.state == Pass::State::Ended) continue;
      pass.asked_to_end = true;
      if (how == Stop::AtOnce && pass.state == Pass::State::Running) end(name, JobState::Cancelled);
    }
  }

 private:
  static constexpr size_t kRoom = 2;

  struct Pass {
    enum class State { HandedOver, Withdrawn, Running, Ended };
    Submission submission;
    State state = State::HandedOver;
    bool asked_to_end = false;
  };

  static std::string name_of(const Submission& submission) {
    return submission.name + "#" + std::to_string(submission.attempt) + "." +
           std::to_string(submission.pass);
  }

  static std::filesystem::path events_file(const Submission& submission) {
    return attempt_directory(submission.job_directory, submission.attempt) / "events.jsonl";
  }

  std::vector<std::string> names_of(Pass::State state) const {
    std::vector<std::string> names;
    for (const auto& [name, pass] : passes_) {
      if (pass.state == state) names.push_back(name);
    }
    return names;
  }

  /// Watches from where the engine or an earlier watch here has stopped reading.
  void watch(const std::string& name, const Submission& submission) {
    const std::filesystem::path file = events_file(submission);
    uint64_t read = submission.events_read;
    if (const auto earlier = read_here_.find(file); earlier != read_here_.end()) {
      read = std::max(read, earlier->second);
    }
    watched_.insert_or_assign(name, EventTail(file, read));
  }

  /// Reads the new events of a pass. Returns whether it is over.
  bool read(const std::string& name, EventTail& tail, std::vector<Update>& updates) {
    const Pass& pass = passes_.at(name);
    const bool has_ended = pass.state == Pass::State::Ended;
    bool says_so = false;
    for (JobEvent& event : tail.read()) {
      event.job = pass.submission.name;
      event.attempt = pass.submission.attempt;
      says_so |= event.state && *event.state != JobState::Running;
      updates.push_back({pass.submission.job, std::move(event), true});
    }
    read_here_[events_file(pass.submission)] = tail.offset();
    if (has_ended && !says_so) {
      JobEvent lost;
      lost.job = pass.submission.name;
      lost.attempt = pass.submission.attempt;
      lost.state = JobState::Lost;
      lost.at = clock_.now();
      updates.push_back({pass.submission.job, std::move(lost), false});
    }
    return has_ended;
  }

  void record(const Pass& pass, JobState state) {
    clock_.advance(std::chrono::milliseconds(1));
    const auto left = outputs.find(pass.submission.name);
    record_state(events_file(pass.submission).parent_path(), state, clock_.now(), {},
                 left == outputs.end() ? Json::object() : left->second);
  }

  FakeClock& clock_;
  std::map<std::string, Pass> passes_;
  std::map<std::string, EventTail> watched_;             // by the current engine
  std::map<std::filesystem::path, uint64_t> read_here_;  // by the current engine
};

}  // namespace dlflow::test
