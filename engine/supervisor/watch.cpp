#include "engine/supervisor/watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/process_tree.h"
#include "engine/ranks/save_request.h"

namespace dlflow {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// A scheduler that ends a job signals each of its processes: the program may die of it before this
/// process gets the signal, on a busy node some time before.
constexpr milliseconds kSignalsTogether(500);
constexpr milliseconds kSuspended(5000);
constexpr milliseconds kTimeToListen(3000);
constexpr milliseconds kSaveLook(20);
constexpr milliseconds kLossLook(2000);
constexpr milliseconds kTimeToLeave(8000);  ///< time for the other ranks, once one has failed
/// srun gives its tasks SLURM's KillWait, which is 30 s, and then prints which node does not
/// answer.
constexpr milliseconds kTimeOfLauncher(60'000);
constexpr auto kNever = steady_clock::time_point::max();

void signal_group(pid_t group, int signal) { ::kill(-group, signal); }

/// The resources that the children of one pass used. Not RUSAGE_CHILDREN: that includes earlier
/// passes of this process.
class Usage {
 public:
  void add(const struct rusage& one) {
    for (const timeval& value : {one.ru_utime, one.ru_stime}) {
      time_ += std::chrono::seconds(value.tv_sec) + std::chrono::microseconds(value.tv_usec);
    }
    constexpr uint64_t kKibibyte = 1024;
    memory_bytes_ = std::max(memory_bytes_, uint64_t(one.ru_maxrss) * kKibibyte);
  }

  PassUsage sum() const {
    return {.cpu_time = std::chrono::floor<milliseconds>(time_), .memory_bytes = memory_bytes_};
  }

 private:
  std::chrono::microseconds time_{0};
  uint64_t memory_bytes_ = 0;
};

/// Kills the processes that the program left behind: its group, and orphans that came to this
/// subreaper (ranks lead their own groups).
void end_leftovers(pid_t group, Usage& usage) {
  constexpr int kTries = 1000;
  signal_group(group, SIGKILL);
  for (int i = 0; i < kTries; ++i) {
    pid_t ended = 0;
    struct rusage used {};
    while ((ended = ::wait4(-1, nullptr, WNOHANG, &used)) > 0) usage.add(used);
    if (ended < 0 && errno == ECHILD) return;  // no children any more
    for (const ProcessStat& left : processes_below(::getpid())) send_signal(left, SIGKILL);
    ::usleep(1000);
  }
}

/// The request to save, on its way to one program.
class Asking {
 public:
  Asking(const WatchOptions& options, pid_t group)
      : options_(options), group_(group), request_(options.save_signal, options.warn) {}

  /// Signals the processes that should have got the request by now.
  void act() {
    const auto now = options_.now();
    if (now < next_) return;
    if (!has_begun_) {
      log(LogLevel::Info, "the program is asked to save");
      if (options_.on_save_request) options_.on_save_request();
    }
    has_begun_ = true;
    next_ = now + kAskAgain;
    if (!options_.has_relay) return request_.look(group_);
    if (!is_relay_ready()) return;
    signal_group(group_, options_.save_signal);
    next_ = kNever;
  }

  steady_clock::time_point next() const { return next_; }

  /// Whether more time would let nobody save.
  bool is_in_vain() const { return !options_.has_relay && !request_.has_asked(); }

 private:
  /// Lines of `setup:` run before it, in a shell that would die of the signal. That shell also
  /// blocks signals for moments, so the signal must be found blocked twice.
  bool is_relay_ready() {
    if (!process_stat(group_)) return true;  // they are hidden
    const SignalUse use = signal_use(group_, options_.save_signal);
    const bool stays_blocked = use.is_blocked && was_blocked_;
    was_blocked_ = use.is_blocked;
    return use.is_caught || stays_blocked;
  }

  const WatchOptions& options_;
  pid_t group_;
  SaveRequest request_;
  bool has_begun_ = false, was_blocked_ = false;
  steady_clock::time_point next_{};  // at once
};

/// The times of the request to save, of the request to end, and of the kill; never, if a time is
/// not set.
class Deadlines {
 public:
  Deadlines(const WatchOptions& options, pid_t group)
      : options_(options), group_(group), asking_(options_, group) {
    if (options.walltime.count() > 0) {
      set(options_.now() + options.walltime - options.time_to_save);
    }
  }

  /// The sequence begins at `start`, or at its planned time if that is earlier.
  void set(steady_clock::time_point start) {
    save_ = std::min(save_, start);
    end_ = std::min(end_, start + options_.time_to_save);
    kill_ = std::min(kill_, start + options_.time_to_save + options_.time_to_end);
  }

  /// Skips the steps before SIGTERM.
  void end_now(milliseconds time_to_end) {
    end_ = options_.now();
    kill_ = std::min(kill_, end_ + time_to_end);
    is_told_ = true;
    done_ = std::max(done_, 1);
  }

  void kill_now() { kill_ = options_.now(); }

  /// Somebody waits for the end: a program that cannot save gets no time for it.
  void hurry() { vain_ = std::min(vain_, options_.now() + kTimeToListen); }

  void postpone(steady_clock::duration time) {
    for (auto* deadline : {&save_, &end_, &kill_, &vain_}) {
      if (*deadline != kNever) *deadline += time;
    }
  }

  steady_clock::time_point next() const {
    return std::min({done_ < 1 ? save_ : kNever, done_ < 2 ? end_ : kNever,
                     done_ < 3 ? kill_ : kNever, is_asking() ? asking_.next() : kNever,
                     is_asking() && asking_.is_in_vain() ? vain_ : kNever});
  }

  /// Whether SIGTERM or SIGKILL was sent.
  bool has_ended_it() const { return done_ > 1; }

  /// Sends the signals that are due; whether the first of them has been sent.
  bool act() {
    const auto now = options_.now();
    if (done_ < 1 && now >= save_) done_ = 1;
    if (is_asking()) asking_.act();
    if (is_asking() && now >= vain_ && asking_.is_in_vain()) {
      end_now(options_.time_to_end);
    }
    if (done_ < 2 && now >= end_ && !waits_for_save(now)) {
      end_by(SIGTERM);
      done_ = 2;
    }
    if (done_ < 3 && now >= kill_) {
      end_by(SIGKILL);
      done_ = 3;
    }
    return done_ > 0;
  }

 private:
  void end_by(int signal) const {
    log(LogLevel::Info, signal == SIGTERM ? "the program gets SIGTERM" : "the program is killed");
    if (options_.before_end) options_.before_end(signal);
    signal_group(group_, signal);
  }

  /// Whether a save is under way, which ends soon; the caller checks again then.
  bool waits_for_save(steady_clock::time_point now) {
    if (!options_.is_saving || options_.time_to_save.count() == 0) return false;
    if (finish_by_ == kNever) finish_by_ = std::min(end_ + options_.time_to_end / 2, kill_);
    if (now >= finish_by_ || !options_.is_saving()) return false;
    end_ = now + kSaveLook;
    return true;
  }

  bool is_asking() const { return done_ == 1 && options_.time_to_save.count() > 0 && !is_told_; }

  WatchOptions options_;
  pid_t group_;
  Asking asking_;
  int done_ = 0;          // how many of the three have happened
  bool is_told_ = false;  // requests to end without a request to save
  steady_clock::time_point save_ = kNever;
  steady_clock::time_point end_ = kNever;
  steady_clock::time_point kill_ = kNever;
  steady_clock::time_point finish_by_ = kNever;  // files that are being saved at the end
  steady_clock::time_point vain_ = kNever;       // gives up a request that no process has received
};

/// One program from its start to its end. The problem: its end, its deadlines and signals from four
/// kinds of senders may come in any order, together or twice; none may be lost, and nothing should
/// be checked more often than necessary.
///
/// All signals are blocked and come through a descriptor, so that they interrupt nothing and wait
/// between two checks. A sleep ends with a signal (also that of a child's end), with the next
/// deadline, when the program's use is to be measured, or after a minute. Then each turn goes
/// through the same list, in this order, whatever ended the sleep.
///
///  1. hear: requests are read before the end is looked for. A scheduler signals all processes of
///     a job at once, and a program that died of that was stopped; it did not fail.
///  2. has_ended: for the same reason a death by a signal waits a moment for a request, and exit
///     status 75 takes the one that is there.
///  3. look: whether the program is still needed; whether its launcher waits for a lost rank.
///  4. act: the request to save, SIGTERM, SIGKILL, when they are due. The walltime, a warning and a
///     request are one sequence that begins at different times: deadlines only move closer, so
///     that any number of them in any order gives the earliest. A second request kills at once.
///  5. sleep, and pass on the program's output. If the sleep ends much later than planned, the job
///     was suspended, and its deadlines move.
///
/// The ranks of a program may outlive it. They come to this process, a subreaper, and are killed
/// before the program counts as ended.
class Watching {
 public:
  Watching(StopSignals& signals, pid_t program, const WatchOptions& options)
      : signals_(signals),
        program_(program),
        options_(options),
        deadlines_(options, program),
        look_(options.is_wanted ? options.now() + options.look_again : kNever),
        loss_look_(options.has_lost_rank ? options.now() + kLossLook : kNever) {}

  void hear(const StopRequests& news) {
    if (news.cause == StopCause::None || is_early_warning(news)) return;
    deadlines_.set(options_.now());
    if (news.stops > 0) deadlines_.hurry();
    if (news.stops > 0 && stops_ + news.stops > 1) deadlines_.kill_now();  // asked twice
    const bool is_first = stops_ == 0;
    if (is_first && news.cause == StopCause::Terminated && options_.on_terminate) {
      options_.on_terminate();
    }
    if (is_first || news.stops > 0) result_.cause = news.cause;
    stops_ += news.stops;
  }

  bool has_ended() {
    struct rusage used {};
    const auto exit = poll_exit(program_, &used);
    if (!exit) return false;
    usage_.add(used);
    result_.exit = *exit;
    if (result_.cause == StopCause::None) result_.cause = cause_of(*exit);
    return true;
  }

  void look() {
    if (options_.now() < look_) return;
    look_ = options_.now() + options_.look_again;
    if (options_.is_wanted()) return;
    log(LogLevel::Info, "this pass is no longer needed");
    result_.cause = StopCause::Unwanted;
    deadlines_.end_now(options_.time_to_end);
  }

  void look_for_loss() {
    const auto now = options_.now();
    if (now < loss_look_) return;
    if (!has_lost_rank_) {
      has_lost_rank_ = options_.has_lost_rank();
      loss_look_ = now + (has_lost_rank_ ? kTimeToLeave : kLossLook);
      return;
    }
    loss_look_ = kNever;
    if (result_.cause != StopCause::None) return;  // it was already told to end
    result_.cause = StopCause::LostRank;
    log(LogLevel::Info, "the launcher waits for a lost rank");
    deadlines_.end_now(kTimeOfLauncher);
  }

  void act() {
    const bool asked = deadlines_.act();
    if (asked && result_.cause == StopCause::None) result_.cause = StopCause::Walltime;
  }

  StopRequests sleep() {
    const auto now = options_.now();
    const auto next =
        std::min({deadlines_.next(), look_, loss_look_, now + std::chrono::minutes(1)});
    const auto wait = std::max(std::chrono::ceil<milliseconds>(next - now), milliseconds(0));
    const StopRequests news = signals_.read(wait, options_.output);
    if (options_.take_output) options_.take_output();
    const auto late = options_.now() - (now + wait);
    if (late > kSuspended) deadlines_.postpone(late);
    return news;
  }

  Watched finish() {
    end_leftovers(program_, usage_);
    result_.was_ended = deadlines_.has_ended_it();
    result_.used = usage_.sum();
    return result_;
  }

 private:
  /// SLURM warns every process; one that cannot save has time until its walltime.
  bool is_early_warning(const StopRequests& news) const {
    return news.stops == 0 && news.cause == StopCause::Walltime && options_.walltime.count() > 0 &&
           options_.time_to_save.count() == 0;
  }

  /// Why the program ended, if no request to stop had been read before.
  StopCause cause_of(const ExitStatus& exit) {
    if (exit.code > 128) return signals_.wait_for_request(kSignalsTogether).cause;
    // The program got the same signals as this process.
    if (exit.code == kExitAgain) return signals_.read(milliseconds(0)).cause;
    return StopCause::None;
  }

  StopSignals& signals_;
  const pid_t program_;
  const WatchOptions& options_;
  Deadlines deadlines_;
  steady_clock::time_point look_;
  steady_clock::time_point loss_look_;
  bool has_lost_rank_ = false;
  int stops_ = 0;  // how often the end was asked for
  Usage usage_;
  Watched result_;
};

}  // namespace

/// Signals of this kind carry a value, and none is lost because another one waits.
bool request_stop(const ProcessIdentity& supervisor, uint64_t token) {
  sigval value{};
  value.sival_ptr = reinterpret_cast<void*>(token);  // NOLINT(performance-no-int-to-ptr): 64 bits
  return ::sigqueue(supervisor.pid, SIGRTMIN, value) == 0;
}

StopSignals::StopSignals(uint64_t token, SharedSignals shared)
    : token_(token), shared_(std::move(shared)) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGCHLD, SIGRTMIN}) {
    ::sigaddset(&set, number);
  }
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &set, &before);
  signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) throw_errno("cannot watch signals", errno);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (!shared_.hear && ::sigismember(&before, SIGRTMIN) == 1)
    read(milliseconds(0));  // for an earlier one
}

StopRequests StopSignals::read(milliseconds timeout, int other) {
  pollfd descriptors[] = {{signals_.get(), POLLIN, 0}, {other, POLLIN, 0}};
  ::poll(descriptors, 2, int(timeout.count()));
  StopRequests requests;
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == ssize_t(sizeof info)) {
    if (info.ssi_signo == SIGCHLD) continue;
    const bool queued = info.ssi_signo == uint32_t(SIGRTMIN);
    if (queued && info.ssi_ptr != token_) continue;
    // Grid Engine may send it to the process group, and also to each process of the job.
    if (info.ssi_signo == SIGUSR2 && std::exchange(is_deleted_, true)) continue;
    const bool requested = queued || info.ssi_signo == SIGINT || info.ssi_signo == SIGUSR2;
    if (requested && shared_.is_requested && !shared_.is_requested()) continue;
    const bool ends = info.ssi_signo != SIGUSR1;
    if (!requested && shared_.hear)
      shared_.hear(ends ? StopCause::Terminated : StopCause::Walltime);
    requests.stops += ends;
    if (info.ssi_signo == SIGTERM) requests.cause = StopCause::Terminated;
    if (requested) requests.cause = StopCause::Requested;
    if (requests.stops == 0) requests.cause = StopCause::Walltime;
  }
  return requests;
}

/// The end of its program is not a request, but also a signal.
StopRequests StopSignals::wait_for_request(milliseconds time) {
  const auto end = steady_clock::now() + time;
  StopRequests requests;
  while (requests.cause == StopCause::None) {
    const auto left = std::chrono::ceil<milliseconds>(end - steady_clock::now());
    if (left.count() <= 0) break;
    requests = read(left);
  }
  return requests;
}

bool StopSignals::is_quiet_for(milliseconds time) const {
  pollfd descriptor = {signals_.get(), POLLIN, 0};
  return ::poll(&descriptor, 1, int(time.count())) == 0;
}

StopCause Watcher::stop_requested() {
  const StopRequests requests = signals_.read(milliseconds(0));
  before_.stops += requests.stops;
  if (requests.cause != StopCause::None) before_.cause = requests.cause;
  return before_.stops > 0 ? before_.cause : StopCause::None;
}

Watched Watcher::watch(pid_t program, const WatchOptions& options) {
  Watching watching(signals_, program, options);
  watching.hear(before_);
  while (!watching.has_ended()) {
    watching.look();
    watching.look_for_loss();
    watching.act();
    watching.hear(watching.sleep());
  }
  return watching.finish();
}

}  // namespace dlflow
