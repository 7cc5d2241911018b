#include "engine/backend/local.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/handle.h"
#include "base/process.h"
#include "base/text.h"
#include "engine/backend/gone_host.h"
#include "engine/backend/launcher_client.h"
#include "engine/backend/room.h"
#include "engine/backend/session.h"
#include "engine/plan/run_directory.h"
#include "engine/supervisor/claim.h"
#include "engine/supervisor/watch.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

/// Intervals for reading files without a hint: for our supervisors, whose hints are lost if the
/// socket is full, and for those of an earlier engine, which send none.
constexpr auto kSweep = 1s;
constexpr auto kAdoptedSweep = 200ms;

/// The number of jobs, besides running ones, that may be recording the end of their program. While
/// they wait for the disk, other jobs use their cores.
constexpr size_t kMaxFinishing = 64;

/// A submitted pass, and the resources that it takes.
struct Task {
  Submission submission;
  fs::path directory;  ///< of the attempt
  EventTail tail;
  uint64_t token = 0;
  bool active = false;  ///< otherwise it waits for its next pass
  bool placed = false;  ///< holds its resources: active, and its program has not ended
  bool adopted = false;
  bool launched_again = false;  ///< after the first supervisor died before it claimed the pass
  FileDescriptor process;       ///< pidfd of an adopted supervisor, if the kernel supports it
  std::vector<std::string> gpus;
  size_t stops_asked = 0;  ///< first: save and end; second: kill the program
  size_t stops_sent = 0;

  explicit Task(const Submission& of)
      : submission(of),
        directory(attempt_directory(of.job_directory, of.attempt)),
        tail(directory / "events.jsonl", of.events_read) {}
};

/// The file that lists a job's GPUs, for an engine that adopts the job.
fs::path gpus_file(const Task& task) { return task.directory / "gpus"; }

int open_process(pid_t pid) { return int(::syscall(SYS_pidfd_open, pid, 0)); }

constexpr const char* kKilled = "its supervisor was killed";

std::string describe_end(int status) {
  if (WIFSIGNALED(status)) {
    return "its supervisor was killed by signal " + std::to_string(WTERMSIG(status));
  }
  if (WEXITSTATUS(status) != kExitUnrecorded) return kKilled;
  return "its supervisor could not write its record; is the disk full?";
}

class LocalBackend : public Backend {
 public:
  LocalBackend(Machine machine, fs::path launcher)
      : room_(std::move(machine)), program_(std::move(launcher)) {}

  void check(const Plan& plan) const override { check_fits(plan, room_.machine()); }
  void begin(const fs::path& run_directory) override;
  bool has_room(const Resources& resources) const override {
    const bool fits = room_.fits(resources);
    is_room_wanted_ |= !fits;
    return fits;
  }
  void submit(const Submission& submission) override;
  Recovery recover(const Submission& submission) override;
  bool withdraw(const Submission& submission) override {
    const fs::path attempt = attempt_directory(submission.job_directory, submission.attempt);
    return !fs::exists(attempt) || claim_pass(attempt, submission.pass);
  }
  std::vector<Update> wait(std::chrono::milliseconds timeout, int interrupt) override;
  void stop(uint32_t job, Stop how) override;

 private:
  using Updates = std::vector<Update>;

  void vacate(Task& task);
  void release(Task& task);
  void launch(Task& task);
  void adopt(Task& task, const ProcessIdentity& supervisor);

  void take_news(Updates& updates);
  void read(Task& task, Updates& updates);
  void look_for(Task& task, const std::string& if_dead, Updates& updates);
  void lost(Task& task, const std::string& reason, Updates& updates);
  void forget_ended();
  void sweep(Updates& updates);
  void replace_launcher(Updates& updates);
  void send_stops(Task& task);

  steady_clock::time_point next_sweep() const;
  bool sleep_until(steady_clock::time_point time, int interrupt);

  mutable Room room_;  // has_room() reserves GPUs
  fs::path program_;
  fs::path run_directory_;
  LauncherClient launcher_;
  uint64_t last_token_ = 0;
  std::map<uint32_t, Task> tasks_;       // by job
  std::map<uint64_t, uint32_t> job_of_;  // by token
  std::vector<uint32_t> woken_;          // adopted jobs whose supervisor has ended
  std::vector<uint32_t> ended_;          // jobs that wait() may forget
  mutable bool is_room_wanted_ = false;  // has_room() has refused since room was freed
  bool room_freed_ = false;              // since wait() was called, for a job that wants it
  size_t num_finishing_ = 0;             // active, but holding no resources
  size_t num_adopted_ = 0;
  size_t num_stopping_ = 0;
  steady_clock::time_point last_sweep_ = steady_clock::now();
};

void LocalBackend::begin(const fs::path& run_directory) {
  run_directory_ = run_directory;
  if (program_.empty()) program_ = frozen_program(run_directory);
  launcher_.set_program(program_, run_directory / "engine.log");
}

void LocalBackend::vacate(Task& task) {
  if (!task.placed) return;
  room_.give_back(task.submission.resources, task.gpus);
  task.gpus.clear();
  task.placed = false;
  room_freed_ |= std::exchange(is_room_wanted_, false);
}

void LocalBackend::release(Task& task) {
  if (!task.placed) --num_finishing_;
  vacate(task);
  task.active = false;
  if (task.adopted) --num_adopted_;
  task.adopted = false;
  task.process.reset();
  job_of_.erase(task.token);
}

void LocalBackend::submit(const Submission& submission) {
  Task& task = tasks_.try_emplace(submission.job, submission).first->second;
  DLFLOW_CHECK(!task.active);
  const bool is_same =
      task.submission.attempt == submission.attempt && task.submission.name == submission.name;
  if (!is_same) task = Task(submission);
  task.submission = submission;  // for another pass of the attempt, continues reading its record
  task.stops_asked = task.stops_sent = 0;
  task.launched_again = false;
  task.active = task.placed = true;
  task.gpus = room_.take(submission.resources);
  if (!task.gpus.empty()) write_file_atomic(gpus_file(task), join(task.gpus, ","));
  launch(task);
}

void LocalBackend::launch(Task& task) {
  job_of_.erase(task.token);
  task.token = ++last_token_;
  job_of_[task.token] = task.submission.job;
  // Jobs see only the GPUs that they asked for.
  std::optional<std::string> gpus;
  if (!room_.machine().gpus.empty()) gpus = join(task.gpus, ",");
  launcher_.launch(task.token, task.submission.pass, task.directory, gpus,
                   room_.descriptors_of(task.gpus));
}

Recovery LocalBackend::recover(const Submission& submission) {
  Task task(submission);
  const auto claim = newest_claim(task.directory);
  if (!claim || claim->pass < submission.pass) return Recovery::NotStarted;
  switch (liveness(claim->supervisor)) {
    case Liveness::Alive:
      break;
    case Liveness::Dead:
      end_left_programs(claim->supervisor, task.directory);
      // If it recorded its end after the engine looked, wait() reports that.
      if (EventTail(task.tail).read().empty()) return Recovery::Vanished;
      break;
    case Liveness::Unknown:
      if (is_on_gone_host(run_directory_, task.directory, *claim)) return Recovery::Vanished;
      throw Error(Errc::Unavailable,
                  submission.name + " runs on host " + claim->supervisor.host +
                      "; continue the run there, or end it there with `dlflow cancel`. If that "
                      "machine is gone for good, `dlflow cancel " +
                      run_directory_.filename().string() + " --gone " +
                      shell_quote(claim->supervisor.host) + "`");
  }
  Task& kept = tasks_.insert_or_assign(submission.job, std::move(task)).first->second;
  kept.active = kept.placed = true;
  kept.gpus = room_.take(kept.submission.resources,
                         split(read_file_if_exists(gpus_file(kept)).value_or(""), ','));
  adopt(kept, claim->supervisor);
  return Recovery::Watched;
}

void LocalBackend::adopt(Task& task, const ProcessIdentity& supervisor) {
  task.adopted = true;
  ++num_adopted_;
  task.process.reset(open_process(supervisor.pid));
  if (liveness(supervisor) != Liveness::Alive) task.process.reset();  // the pid may be reused
}

void LocalBackend::take_news(Updates& updates) {
  for (const LauncherNews& news : launcher_.receive()) {
    const auto job = job_of_.find(news.token);
    if (job == job_of_.end()) continue;  // its last event has been reported
    Task& task = tasks_.at(job->second);
    if (news.kind == NewsKind::NotStarted) {
      lost(task, std::string("cannot start its supervisor: ") + std::strerror(news.status),
           updates);
      continue;
    }
    if (news.kind == NewsKind::ProgramEnded) {
      if (num_finishing_ == kMaxFinishing) continue;
      vacate(task);
      ++num_finishing_;
      continue;
    }
    read(task, updates);
    if (news.kind == NewsKind::Ended && task.active) {
      look_for(task, describe_end(news.status), updates);
    }
  }
  for (const uint32_t job : std::exchange(woken_, {})) look_for(tasks_.at(job), kKilled, updates);
}

void LocalBackend::read(Task& task, Updates& updates) {
  for (JobEvent& event : task.tail.read()) {
    event.job = task.submission.name;
    event.attempt = task.submission.attempt;
    const auto state = event.state;
    updates.push_back({task.submission.job, std::move(event), true});
    if (!task.active || !state) continue;
    if (is_final(*state)) ended_.push_back(task.submission.job);
    if (is_final(*state) || *state == JobState::Queued) release(task);
  }
}

/// References to tasks are valid until the next call of wait().
void LocalBackend::forget_ended() {
  for (const uint32_t job : std::exchange(ended_, {})) {
    const auto task = tasks_.find(job);
    if (task != tasks_.end() && !task->second.active) tasks_.erase(task);
  }
}

/// Finds the owner of the pass, after our supervisor ended without a recorded end (another was
/// faster, or it was killed), or an adopted one may have died.
void LocalBackend::look_for(Task& task, const std::string& if_dead, Updates& updates) {
  const auto claim = newest_claim(task.directory);
  const bool claimed = claim && claim->pass == task.submission.pass;
  if (claimed && liveness(claim->supervisor) != Liveness::Dead) {
    if (!task.adopted) adopt(task, claim->supervisor);
    return;
  }
  if (!claimed && !task.adopted && !std::exchange(task.launched_again, true)) {
    launch(task);  // nothing has run: a free supervisor may be killed just as it is chosen
    return;
  }
  read(task, updates);  // what it wrote before it died
  if (!task.active) return;
  if (claimed) end_left_programs(claim->supervisor, task.directory);
  lost(task, if_dead, updates);
}

void LocalBackend::lost(Task& task, const std::string& reason, Updates& updates) {
  JobEvent event{.job = task.submission.name,
                 .attempt = task.submission.attempt,
                 .state = JobState::Lost,
                 .at = SystemClock().now(),
                 .node = host_name(),
                 .reason = reason};
  updates.push_back({task.submission.job, std::move(event), false});
  ended_.push_back(task.submission.job);
  release(task);
}

void LocalBackend::sweep(Updates& updates) {
  last_sweep_ = steady_clock::now();
  if (launcher_.has_died()) replace_launcher(updates);
  num_stopping_ = 0;
  for (auto& [job, task] : tasks_) {
    if (!task.active) continue;
    read(task, updates);
    if (task.active && task.adopted) look_for(task, kKilled, updates);
    if (task.active) send_stops(task);
  }
}

/// The launcher's supervisors continue without it, but nobody reports how they end. Requests that
/// it had not started need another launcher.
void LocalBackend::replace_launcher(Updates& updates) {
  for (auto& [job, task] : tasks_) {
    if (!task.active || task.adopted) continue;
    const auto claim = newest_claim(task.directory);
    if (claim && claim->pass == task.submission.pass) {
      look_for(task, kKilled, updates);
    } else {
      launch(task);
    }
  }
}

void LocalBackend::stop(uint32_t job, Stop how) {
  const auto found = tasks_.find(job);
  if (found == tasks_.end() || !found->second.active) return;
  found->second.stops_asked = how == Stop::AndSave ? 1 : 2;
  send_stops(found->second);
}

/// If the pass is not claimed yet, sweep() sends them later.
void LocalBackend::send_stops(Task& task) {
  if (task.stops_sent == task.stops_asked) return;
  const auto claim = newest_claim(task.directory);
  if (!claim || claim->pass != task.submission.pass) {
    ++num_stopping_;
    return;
  }
  if (liveness(claim->supervisor) != Liveness::Alive) return;
  while (task.stops_sent < task.stops_asked) {
    if (!request_stop(claim->supervisor, claim->token)) {
      ++num_stopping_;
      return;
    }
    ++task.stops_sent;
  }
}

steady_clock::time_point LocalBackend::next_sweep() const {
  const bool often = num_adopted_ > 0 || num_stopping_ > 0;
  return last_sweep_ +
         (often ? steady_clock::duration(kAdoptedSweep) : steady_clock::duration(kSweep));
}

/// Returns false if `interrupt` became readable.
bool LocalBackend::sleep_until(steady_clock::time_point time, int interrupt) {
  std::vector<pollfd> files = {{interrupt, POLLIN, 0}, {launcher_.descriptor(), POLLIN, 0}};
  if (launcher_.has_unsent()) files[1].events |= POLLOUT;
  std::vector<uint32_t> jobs;
  if (num_adopted_ > 0) {
    for (const auto& [job, task] : tasks_) {
      if (!task.process) continue;
      files.push_back({task.process.get(), POLLIN, 0});
      jobs.push_back(job);
    }
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(time - steady_clock::now());
  if (::poll(files.data(), files.size(), int(std::max<int64_t>(0, left.count()))) < 0) return true;
  if ((files[1].revents & POLLHUP) != 0) last_sweep_ = {};  // the launcher is gone
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (files[i + 2].revents != 0) woken_.push_back(jobs[i]);
  }
  return files[0].revents == 0;
}

std::vector<Update> LocalBackend::wait(std::chrono::milliseconds timeout, int interrupt) {
  const auto deadline = steady_clock::now() + timeout;
  Updates updates;
  forget_ended();
  room_freed_ = false;
  while (true) {
    take_news(updates);
    if (steady_clock::now() >= next_sweep()) sweep(updates);
    if (!updates.empty() || room_freed_ || steady_clock::now() >= deadline) return updates;
    if (!sleep_until(std::min(deadline, next_sweep()), interrupt)) return updates;
  }
}

}  // namespace

std::unique_ptr<Backend> local_backend(Machine machine, fs::path launcher) {
  return std::make_unique<LocalBackend>(std::move(machine), std::move(launcher));
}

}  // namespace dlflow
