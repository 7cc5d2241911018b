#include "steps/ranks/guard.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/exit_status.h"
#include "base/file.h"
#include "base/mpi.h"
#include "base/process.h"
#include "base/text.h"
#include "steps/environment/step_environment.h"
#include "steps/ranks/launch.h"

namespace dlflow::steps {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// The other ranks report within this time which rank is missing. Only the guard has the cause, and
/// its message must come after theirs: people are shown the last error.
constexpr auto kTimeToBeMissed = 300ms;

/// The time after that in which the other ranks end, too. mpirun, and srun with KillOnBadExit, kill
/// ranks that end later than the first; srun would then report that signal instead of 75.
constexpr auto kTimeToEndTogether = 250ms;

/// A launcher that ends the other ranks ends this one earlier.
std::chrono::seconds most_time_stopped() { return stall_timeout() + 5s; }

std::string rank_of_this_process() {
  for (const char* name :
       {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", kSrun.rank, "DLFLOW_RANK"}) {
    const std::string rank = environment_variable(name);
    if (!rank.empty()) return rank;
  }
  return "?";
}

/// The number of processes that this machine's kernel has killed for lack of memory since boot.
unsigned long long out_of_memory_kills() {
  constexpr const char* kKey = "\noom_kill ";
  const std::string counters = read_file_if_exists("/proc/vmstat").value_or("");
  const size_t found = counters.find(kKey);
  return found == std::string::npos
             ? 0
             : std::strtoull(counters.c_str() + found + std::strlen(kKey), nullptr, 10);
}

/// The parent process, which stays behind to watch the rank.
class Guard {
 public:
  Guard(pid_t child, const sigset_t& signals, std::function<bool()> can_resume,
        const std::atomic<GuardedRank::End>& end)
      : child_(child), signals_(signals), can_resume_(std::move(can_resume)), end_(end) {}

  [[noreturn]] void watch() {
    for (;;) {
      const timespec second{1, 0};
      siginfo_t info{};
      const int signal = ::sigtimedwait(&signals_, &info, &second);
      if (signal == SIGCHLD || signal < 0) {
        look();
      } else {
        passed_on_ = signal;
        ::kill(child_, signal);
      }
    }
  }

 private:
  void look() {
    int status = 0;
    while (::waitpid(child_, &status, WNOHANG | WUNTRACED | WCONTINUED) == child_) {
      if (WIFEXITED(status)) ::_exit(WEXITSTATUS(status));
      if (WIFSIGNALED(status)) report(WTERMSIG(status));
      stopped_since_ = WIFSTOPPED(status) ? std::optional(Clock::now()) : std::nullopt;
    }
    if (stopped_since_ && Clock::now() - *stopped_since_ > most_time_stopped()) {
      ended_stopped_ = true;
      ::kill(child_, SIGKILL);
    }
  }

  [[noreturn]] void report(int signal) const {
    if (signal == passed_on_) ::_exit(128 + signal);
    std::this_thread::sleep_for(kTimeToBeMissed);
    const GuardedRank::End end = end_;
    if (end == GuardedRank::End::Unknown) {
      std::fprintf(stderr, "error: rank %s (node %s): %s\n", rank_of_this_process().c_str(),
                   host_name().c_str(), escaped_lines(cause(signal)).c_str());
    }
    std::this_thread::sleep_for(kTimeToEndTogether);
    if (end != GuardedRank::End::Mistake && can_resume_()) ::_exit(kExitAgain);
    ::_exit(end == GuardedRank::End::Unknown ? 128 + signal : 1);
  }

  std::string cause(int signal) const {
    if (ended_stopped_) {
      return "stopped by a signal for " + std::to_string(most_time_stopped().count()) + " s";
    }
    const bool out_of_memory = signal == SIGKILL && out_of_memory_kills() > memory_kills_;
    return "killed by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")" +
           (out_of_memory ? ", out of memory" : "");
  }

  pid_t child_;
  sigset_t signals_;
  std::function<bool()> can_resume_;
  const std::atomic<GuardedRank::End>& end_;  // set by the rank
  int passed_on_ = 0;                         // last signal, which explains the child's end
  std::optional<Clock::time_point> stopped_since_;
  bool ended_stopped_ = false;
  unsigned long long memory_kills_ = out_of_memory_kills();
};

/// Memory that this process shares with those that it forks.
std::atomic<GuardedRank::End>& shared_end() {
  using End = std::atomic<GuardedRank::End>;
  static_assert(End::is_always_lock_free);  // shared between processes
  void* const memory =
      ::mmap(nullptr, sizeof(End), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw_errno("memory for a rank and its guard", errno);
  return *new (memory) End(GuardedRank::End::Unknown);
}

}  // namespace

GuardedRank guard_rank(const std::function<bool()>& can_resume) {
  if (!is_launched()) return {};
  std::atomic<GuardedRank::End>& end = shared_end();
  sigset_t signals, before;
  ::sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT, SIGCONT}) {
    ::sigaddset(&signals, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &signals, &before);
  const pid_t guard = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw_errno("a process for the rank", errno);
  if (child > 0) Guard(child, signals, can_resume, end).watch();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != guard) ::_exit(1);  // the guard died before prctl()
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  // Open MPI may write to the socket of a dead rank. The watch explains such an error, so SIGPIPE
  // must not kill this process first.
  std::signal(SIGPIPE, SIG_IGN);
  return GuardedRank(&end);
}

}  // namespace dlflow::steps
