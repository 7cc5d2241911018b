#pragma once

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "engine/model/parse.h"
#include "engine/plan/data_identity.h"
#include "engine/plan/run_directory.h"
#include "engine/run/local/local_run.h"
#include "engine/supervisor/supervisor.h"
#include "tests/support/as_user.h"
#include "tests/support/catch.h"
#include "tests/support/fake_clock.h"
#include "tests/support/in_child.h"
#include "tests/support/new_store.h"
#include "tests/support/silent_observer.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/engine/run/random_workflow.h"

/// Two users who share a cache, and run a workflow repeatedly.
namespace dlflow::test {

namespace fs = std::filesystem;

/// Numbers of no user on this machine, and a group for both.
constexpr gid_t kGroup = 60000;
constexpr std::pair<const char*, uid_t> kUsers[] = {{"ann", 60001}, {"bob", 60002}};

/// Whether these are two users instead of two homes: this process may change to them, and they may
/// run its programs.
inline bool are_users() {
  static const bool are = [] {
    if (!may_be(kUsers[0].second, kGroup)) return false;
    const AsUser user(kUsers[0].second, kGroup);
    return ::access(DLFLOW_PROGRAM, X_OK) == 0;
  }();
  return are;
}

/// Changes to this user, if there are two.
inline std::unique_ptr<AsUser> as_user(const std::string& name) {
  if (!are_users()) return nullptr;
  const uid_t number = name == kUsers[0].first ? kUsers[0].second : kUsers[1].second;
  return std::make_unique<AsUser>(number, kGroup);
}

/// Supervises one job after the other in this process, like a worker of the local back end.
class OneByOne : public Backend {
 public:
  void check(const Plan&) const override {}
  void begin(const fs::path&) override {}
  bool has_room(const Resources&) const override { return waiting_.empty(); }
  void submit(const Submission& submission) override { waiting_.push_back(submission); }
  Recovery recover(const Submission&) override { return Recovery::NotStarted; }
  bool withdraw(const Submission&) override { return true; }
  void stop(uint32_t, Stop) override {}

  JobName killed_after;  ///< dlflow and its children die when this job has ended; empty: never

  std::vector<Update> wait(std::chrono::milliseconds, int) override {
    std::vector<Update> updates;
    if (waiting_.empty()) return updates;
    const Submission job = waiting_.front();
    waiting_.pop_front();
    const fs::path attempt = attempt_directory(job.job_directory, job.attempt);
    supervise(attempt, job.pass);
    if (job.name == killed_after) ::_exit(1);
    for (JobEvent& event : attempt_events(job.job_directory, job.name, job.attempt)) {
      updates.push_back({job.job, std::move(event), true});
    }
    return updates;
  }

 private:
  std::deque<Submission> waiting_;
};

/// The workflow's folder, its runs, and the users' stores.
class World {
 public:
  /// \param reuses  reuses results if possible; otherwise every run does everything.
  explicit World(bool reuses) : reuses_(reuses) {
    ::umask(022);
    ::chmod(folder_.path().c_str(), 0755);
    make_directories(path("shared"));
    ::chmod(path("shared").c_str(), 0777);
    make_directories(path("cache"));
    give(path("cache"), 0, 02770);
    make_directories(path("w"));
    ::chmod(path("w").c_str(), 0755);
    program_ = folder_.write("dlflow", "#!/bin/sh\nexec " DLFLOW_PROGRAM " \"$@\"\n");
    ::chmod(program_.c_str(), 0755);
    for (const auto& [name, number] : kUsers) {
      for (const fs::path& folder : {path(name), runs_of(name)}) {
        make_directories(folder);
        give(folder, number, 0755);
      }
      const auto user = as_user(name);
      stores_.emplace(name, std::make_unique<Store>(with_tables(path(name))));
    }
  }

  void write_data(const std::string& content, bool keeps_time) {
    const fs::path file = path("data");
    const bool was_there = fs::exists(file);
    const auto time = was_there ? fs::last_write_time(file) : fs::file_time_type{};
    std::ofstream(file) << content;
    if (was_there && keeps_time) fs::last_write_time(file, time);
  }

  /// Returns job -> name and content of each published file, and counts reused jobs. A job that
  /// blocks stops the run; jobs that it did not reach are left out.
  std::map<std::string, std::string> run(const RandomWorkflow& workflow, const std::string& user,
                                         const std::function<void()>& between,
                                         const JobName& killed_after = "") {
    write_inputs(workflow);
    folder_.write("w/w.yaml",
                  yaml_of(workflow, {path("data").string(), path("shared/" + user).string(),
                                     path("folder").string()}));
    write_folder(workflow.folder);
    ::setenv("ORACLE_X", workflow.shell.c_str(), 1);
    ::chmod(path("w/w.yaml").c_str(), 0644);
    auto as = as_user(user);
    Store& store = *stores_.at(user);
    OneByOne backend;
    backend.killed_after = killed_after;
    SilentObserver observer;
    const Services services{store, backend, observer, clock_};
    Plan plan = plan_for(user, store);
    create_run(plan, services, program_);
    as.reset();
    between();
    as = as_user(user);
    const std::string name = plan.run;
    start_run(std::move(plan), services, {});
    clock_.advance(std::chrono::seconds(1));
    return published(store.status(name));
  }

  /// Plans and runs it in a process that is killed when `job` has ended, so that the rest is not
  /// recorded.
  void run_killed(const RandomWorkflow& workflow, const std::string& user, const std::string& job) {
    in_child([&] {
      for (auto& [name, store] : stores_) (void)store.release();  // the parent's files
      {
        const auto as = as_user(user);
        stores_[user] = std::make_unique<Store>(path(user));
      }
      run(
          workflow, user, [] {}, JobName(job));
      return 0;
    });
    clock_.advance(std::chrono::seconds(1));
  }

  /// Damages a publication: a purge, an edit in place, an edit with the old time restored, an
  /// additional file, or another mode.
  void damage(Dice& dice) {
    const std::vector<fs::path> files = published_files();
    if (files.empty()) return;
    const fs::path file = files[size_t(dice.below(files.size()))];
    const auto time = fs::last_write_time(file);
    switch (dice.below(5)) {
      case 0:
        fs::remove(file);
        break;
      case 1:
        std::ofstream(file, std::ios::app) << "appended";
        break;
      case 2: {
        std::string content = read_file(file);
        if (!content.empty()) content.front() ^= 1;
        std::ofstream(file) << content;
        // A staged file may share its bytes with the cache, which trusts the time as a seal;
        // restoring it would forge the seal.
        if (fs::hard_link_count(file) == 1) fs::last_write_time(file, time);
        break;
      }
      case 3:
        std::ofstream(file.parent_path() / "added") << "more";
        break;
      default:
        ::chmod(file.c_str(), is_executable(file) ? 0444 : 0555);
    }
  }

  size_t num_jobs() const { return num_jobs_; }
  size_t num_reused() const { return num_reused_; }

 private:
  fs::path path(const std::string& name) const { return folder_.path() / name; }
  fs::path runs_of(const std::string& user) const { return path(user + "-runs"); }

  static void give(const fs::path& folder, uid_t user, mode_t mode) {
    if (are_users()) REQUIRE(::chown(folder.c_str(), user, kGroup) == 0);
    ::chmod(folder.c_str(), mode);
  }

  void write_folder(const std::map<std::string, std::string>& files) {
    const fs::path folder = path("folder");
    make_directories(folder);
    ::chmod(folder.c_str(), 0755);
    std::vector<fs::path> gone;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (!files.contains(entry.path().filename())) gone.push_back(entry.path());
    }
    for (const fs::path& file : gone) fs::remove(file);
    for (const auto& [name, content] : files) {
      if (read_file_if_exists(folder / name) == content) continue;
      std::ofstream(folder / name) << content;
      ::chmod((folder / name).c_str(), 0644);
    }
  }

  void write_inputs(const RandomWorkflow& workflow) {
    for (const auto& [name, content] : workflow.files) {
      const fs::path file = path("w/" + name);
      const mode_t mode = name == workflow.runs ? 0755 : 0644;
      const bool is_new = read_file_if_exists(file) != content;
      if (is_new) folder_.write("w/" + name, content);
      if (is_new || is_executable(file) != (mode == 0755)) ::chmod(file.c_str(), mode);
    }
  }

  Plan plan_for(const std::string& user, Store& store) const {
    auto parsed = parse_workflow(path("w/w.yaml"));
    if (const auto* wrong = std::get_if<Diagnostics>(&parsed)) {
      FAIL(to_string(wrong->front()) + "\n" + read_file(path("w/w.yaml")));
    }
    Workflow workflow = std::get<Workflow>(std::move(parsed));
    Profile profile;
    profile.runs = runs_of(user);
    profile.cache = path("cache");
    profile.inherit = {"ORACLE_*"};
    profile.launcher = {"/bin/sh", {"-c", "shift 2; exec \"$@\"", "launcher"}};
    PlanOptions options;
    if (!reuses_) {
      for (const Step& step : workflow.steps) options.force.push_back(step.name);
    }
    return make_plan(std::move(workflow), profile, options, store, store);
  }

  std::vector<fs::path> published_files() const {
    std::vector<fs::path> files;
    for (const auto& [user, number] : kUsers) {
      std::error_code none;
      for (const auto& entry : fs::recursive_directory_iterator(runs_of(user), none)) {
        const bool is_output = entry.path().string().find("/outputs/") != std::string::npos;
        if (is_output && entry.is_regular_file()) files.push_back(entry.path());
      }
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  std::map<std::string, std::string> published(const RunStatus& status) {
    std::map<std::string, std::string> all;
    const bool is_stopped = std::ranges::count(status.jobs, JobState::Blocked, &JobRow::state) > 0;
    for (const JobRow& job : status.jobs) {
      ++num_jobs_;
      if (is_stopped && job.state == JobState::Planned) continue;
      if (job.state == JobState::Cached || job.reason.starts_with("reused from")) ++num_reused_;
      std::string& content = all[job.job];
      content = satisfies_dependents(job.state) ? "done\n" : job.reason;
      std::error_code none;
      const fs::path outputs = fs::canonical(fs::path(job.directory) / "outputs", none);
      std::map<std::string, std::string> files;
      for (const auto& entry : fs::recursive_directory_iterator(outputs, none)) {
        // outputs.json names places of this world.
        if (!entry.is_regular_file() || entry.path().filename() == "outputs.json") continue;
        files[entry.path().lexically_relative(outputs)] =
            (is_executable(entry.path()) ? " (may run):\n" : ":\n") + read_file(entry.path());
      }
      for (const auto& [name, text] : files) content += name + text;
    }
    return all;
  }

  bool reuses_;
  TempDir folder_;
  fs::path program_;
  std::map<std::string, std::unique_ptr<Store>> stores_;
  FakeClock clock_;
  size_t num_jobs_ = 0, num_reused_ = 0;
};

}  // namespace dlflow::test
