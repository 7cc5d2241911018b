#include "steps/ranks/launch.h"

#include <omp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/exit_status.h"
#include "base/mpi.h"
#include "base/process.h"
#include "base/text.h"
#include "runtime/comm/meeting.h"
#include "runtime/comm/mpi_communicator.h"
#include "runtime/comm/socket_communicator.h"
#include "runtime/comm/thread_communicator.h"
#include "runtime/watch/watch.h"
#include "steps/environment/step_environment.h"

namespace dlflow::steps {
namespace {

using Clock = std::chrono::steady_clock;

/// A longer wait is hopeless although no watch has noticed, for example if a rank computes forever.
constexpr std::chrono::minutes kTimeout(30);

constexpr std::chrono::seconds kStallWarning(10);

/// The time in which all ranks must start and find each other without MPI. Nodes may see a new file
/// late.
constexpr std::chrono::minutes kTimeToMeet(5);

/// Lies in the current folder, which ranks share.
constexpr const char* kMeetingFile = ".dlflow-ranks";

constexpr const char* kMpiVariables[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK",
                                         "PMI_SIZE", "MV2_COMM_WORLD_SIZE"};

/// Set for each rank by start_ranks(), and by `dlflow rank-exec` for the ranks of a command.
constexpr const char *kOwnRank = "DLFLOW_RANK", *kOwnRanks = "DLFLOW_RANKS";

/// After a rank has failed, the others have this time to end as their watch asks.
constexpr std::chrono::seconds kTimeOfOthers(15);

int positive_variable(const char* name, int otherwise) {
  const std::string text = environment_variable(name);
  if (text.empty()) return otherwise;
  const auto value = number_from<int>(text);
  if (value && *value >= 1) return *value;
  throw Error(Errc::InvalidInput,
              "$" + std::string(name) + ": '" + text + "' is not a whole number of at least 1");
}

void require_all_ranks(int ranks) {
  const int wanted = positive_variable("DLFLOW_RANKS", ranks);
  if (wanted == ranks) return;
  throw Error(Errc::InvalidInput, "$DLFLOW_RANKS is " + std::to_string(wanted) + ", but there " +
                                      (ranks == 1 ? "is " : "are ") + std::to_string(ranks) +
                                      "; start with mpirun -np " + std::to_string(wanted));
}

/// The position of this process among all processes of a launcher.
struct RankPosition {
  std::string launcher;  ///< "the launcher of Open MPI"
  int rank, ranks;
};

/// The positions that launchers' variables describe, the innermost launcher first.
std::vector<RankPosition> positions() {
  std::vector<RankPosition> positions;
  const auto add = [&](const std::string& launcher, const char* rank, const char* ranks) {
    const auto own = number_from<int>(environment_variable(rank));
    const auto all = number_from<int>(environment_variable(ranks));
    if (own && all && *own >= 0 && *own < *all) positions.push_back({launcher, *own, *all});
  };
  for (const MpiLauncher& mpi : kMpiLaunchers) {
    add("the launcher of " + std::string(mpi.name), mpi.rank, mpi.size);
  }
  add(kSrun.name, kSrun.rank, kSrun.size);
  add("dlflow", kOwnRank, kOwnRanks);
  return positions;
}

/// Whether an MPI launcher started this process: Open MPI and PMIx, PMI (MPICH, Intel MPI, srun
/// --mpi=pmi2), MVAPICH.
bool has_mpi_launcher() {
  const auto is_set = [](const char* name) { return !environment_variable(name).empty(); };
  return std::any_of(std::begin(kMpiVariables), std::end(kMpiVariables), is_set);
}

/// If the launcher belongs to another MPI library, each process is rank 0 of 1: each would do all
/// of the work, in the same folder. Launchers may be nested, so one that agrees is enough.
void require_launchers_world(int ranks, const std::string& library) {
  const auto launched = positions();
  const auto agrees = [&](const RankPosition& position) { return position.ranks == ranks; };
  if (launched.empty() || std::any_of(launched.begin(), launched.end(), agrees)) return;
  const RankPosition& position = launched.front();
  throw Error(Errc::InvalidInput,
              position.launcher + " has started " + std::to_string(position.ranks) +
                  " ranks, and " + library + " counts " + std::to_string(ranks) +
                  ": it is not that launcher's MPI; start the ranks with its own mpirun (of SLURM: "
                  "srun --mpi=pmix), or load the module of the launcher's MPI");
}

int run_alone(const std::function<int(runtime::Communicator&)>& work) {
  return run_step([&] {
    omp_set_num_threads(threads_per_rank());
    require_all_ranks(1);
    runtime::ThreadGroup alone(1);
    return work(alone.communicator(0));
  });
}

/// Avoids MPI_Abort: mpirun would print a page of its own, and srun would end with the signal that
/// it sends to the others.
[[noreturn]] void leave(int status) {
  std::fflush(nullptr);
  ::_exit(status);
}

GuardedRank::End end_of(const runtime::WatchError& error) {
  const bool lost =
      error.fault() == runtime::Fault::Lost || error.fault() == runtime::Fault::Stalled;
  return lost ? GuardedRank::End::RankIsLost : GuardedRank::End::Mistake;
}

int exit_status(const runtime::WatchError& error, const std::function<bool()>& can_resume) {
  return end_of(error) == GuardedRank::End::RankIsLost && can_resume() ? kExitAgain : 1;
}

runtime::WatchOptions watch_options(const std::function<bool()>& can_resume,
                                    const GuardedRank& guarded) {
  runtime::WatchOptions options;
  options.limits.stall = stall_timeout();
  options.limits.warning =
      std::min<std::chrono::milliseconds>(kStallWarning, options.limits.stall / 2);
  options.tell = [](const std::string& line) {
    std::fprintf(stderr, "%s\n", escaped_lines(line).c_str());
  };
  options.known = [&guarded](const runtime::WatchError& error) {
    guarded.end_is_known(end_of(error));
  };
  options.last_resort = [&can_resume](const runtime::WatchError& error) {
    leave(exit_status(error, can_resume));
  };
  return options;
}

/// Waits for all ranks and passes on signals; ends with the status of the first rank that fails.
[[noreturn]] void watch_over(std::set<pid_t> running, const sigset_t& signals) {
  int status = 0;
  std::optional<Clock::time_point> failed;
  while (!running.empty()) {
    const timespec second{1, 0};
    const int signal = ::sigtimedwait(&signals, nullptr, &second);
    int ended = 0;
    for (pid_t child = 0; (child = ::waitpid(-1, &ended, WNOHANG)) > 0;) {
      running.erase(child);
      const int its = WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
      if (its == 0 || failed) continue;
      status = its;
      failed = Clock::now();
    }
    const bool late = failed && Clock::now() - *failed > kTimeOfOthers;
    const int passed_on = late ? SIGKILL : signal;
    if (passed_on <= 0 || passed_on == SIGCHLD) continue;
    for (const pid_t child : running) ::kill(child, passed_on);
  }
  ::_exit(status);
}

/// The arguments of run_rank().
struct Job {
  const std::function<bool()>& can_resume;
  const std::function<int(runtime::Communicator&)>& work;
  const GuardedRank& guarded;
};

/// \param way  how the ranks communicate, in words for messages
int run_watched(runtime::Communicator& comm, const std::string& way, const Job& job) {
  require_launchers_world(comm.size(), way);
  require_all_ranks(comm.size());
  if (comm.rank() == 0) {
    const std::string line = std::to_string(comm.size()) + " ranks by " + way;
    std::fprintf(stderr, "%s\n", escaped_lines(line).c_str());
  }
  int status = 0;
  under_watch(comm, watch_options(job.can_resume, job.guarded), [&] { status = job.work(comm); });
  return status;
}

/// Calls `run`. An exception ends all ranks; `abort` reaches those that have no watch yet.
int run_or_end_all(int rank, const Job& job, const std::function<int()>& run,
                   const std::function<void()>& abort) {
  try {
    omp_set_num_threads(threads_per_rank());
    return run();
  } catch (const runtime::WatchError& e) {  // one rank has reported the reason
    leave(exit_status(e, job.can_resume));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: rank %d: %s\n", rank, escaped_lines(e.what()).c_str());
    job.guarded.end_is_known(GuardedRank::End::Mistake);
    abort();
    leave(1);
  }
}

/// \param no_mpi  why MPI cannot be used; empty: no MPI launcher.
int run_over_sockets(const std::string& no_mpi, const Job& job) {
  const auto launched = positions();
  if (launched.empty()) throw Error(Errc::NotFound, no_mpi);  // PMIx only: number of ranks unknown
  const RankPosition& position = launched.front();
  const auto run = [&] {
    runtime::SocketEndpoint own;
    const auto all =
        runtime::meet(kMeetingFile, position.rank, position.ranks, own.text(), kTimeToMeet);
    runtime::SocketCommunicator comm(std::move(own), position.rank, all, kTimeout);
    return run_watched(comm, "TCP and shared memory" + (no_mpi.empty() ? "" : ": " + no_mpi), job);
  };
  return run_or_end_all(position.rank, job, run, [] {});
}

int run_launched(int argc, char** argv, const Job& job) {
  std::optional<runtime::MpiEnvironment> mpi;
  std::string no_mpi;
  try {
    if (has_mpi_launcher()) mpi.emplace(argc, argv);
  } catch (const Error& e) {
    no_mpi = e.what();
  }
  if (!mpi) return run_over_sockets(no_mpi, job);
  const auto run = [&] {
    runtime::MpiCommunicator comm(kTimeout);
    return run_watched(comm, mpi->library(), job);
  };
  return run_or_end_all(mpi->rank(), job, run, [&] { mpi->abort(1); });
}

}  // namespace

void flush_subnormals() {
#if defined(__SSE2__)
  _mm_setcsr(_mm_getcsr() | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
#elif defined(__aarch64__)
  uint64_t control = 0;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  asm volatile("msr fpcr, %0" : : "r"(control | uint64_t(1) << 24));
#endif
}

int threads_per_rank() { return positive_variable("DLFLOW_CPUS_PER_RANK", 1); }

std::chrono::seconds stall_timeout() {
  return std::chrono::seconds(positive_variable("DLFLOW_STALL_TIMEOUT", 60));
}

bool is_launched() {
  const auto is_one_of_several = [](const RankPosition& position) { return position.ranks > 1; };
  const auto launched = positions();
  return has_mpi_launcher() || (environment_variable("DLFLOW_RANKS") != "1" &&
                                std::any_of(launched.begin(), launched.end(), is_one_of_several));
}

void start_ranks(int ranks) {
  for (const char* name : kMpiVariables) ::unsetenv(name);
  ::unsetenv(kSrun.size);
  ::setenv(kOwnRanks, std::to_string(ranks).c_str(), 1);
  sigset_t signals, before;
  ::sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) {
    ::sigaddset(&signals, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &signals, &before);
  const pid_t launcher = ::getpid();
  std::set<pid_t> running;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child < 0) throw_errno("a process for a rank", errno);
    if (child > 0) {
      running.insert(child);
      continue;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != launcher) ::_exit(1);  // the launcher died before prctl()
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::setenv(kOwnRank, std::to_string(rank).c_str(), 1);
    return;
  }
  watch_over(std::move(running), signals);
}

int run_rank(int argc, char** argv, const std::function<bool()>& can_resume,
             const std::function<int(runtime::Communicator&)>& work, const GuardedRank& guarded) {
  flush_subnormals();
  if (!is_launched()) return run_alone(work);
  return run_step([&] { return run_launched(argc, argv, Job{can_resume, work, guarded}); });
}

}  // namespace dlflow::steps
