#include "steps/ranks/launch.h"

#include <omp.h>
#include <unistd.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>

#include "base/error.h"
#include "base/exit_status.h"
#include "base/mpi.h"
#include "base/process.h"
#include "base/text.h"
#include "runtime/comm/mpi_communicator.h"
#include "runtime/comm/thread_communicator.h"
#include "runtime/watch/watch.h"
#include "steps/environment/step_environment.h"

namespace dlflow::steps {
namespace {

/// What waits longer is in vain, although no watch has found out: a rank computes for ever.
constexpr std::chrono::minutes kTimeout(30);

constexpr std::chrono::seconds kStallWarning(10);

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

/// "mpirun of Open MPI" -> the number of ranks that it says it has started.
std::map<std::string, int> launched_ranks() {
  std::map<std::string, int> ranks;
  const auto add = [&](const std::string& launcher, const char* variable) {
    if (const auto number = number_from<int>(environment_variable(variable))) {
      ranks[launcher] = *number;
    }
  };
  for (const MpiLauncher& mpi : kMpiLaunchers) {
    add("the launcher of " + std::string(mpi.name), mpi.size);
  }
  add("srun", "SLURM_STEP_NUM_TASKS");
  return ranks;
}

/// A rank that another library's launcher has started is rank 0 of 1, and so are the others: each
/// would do all of the work, in the same folder. Launchers may be nested, so one that agrees will
/// do.
void require_launchers_world(int ranks, const std::string& library) {
  const auto launched = launched_ranks();
  const auto agrees = [&](const auto& launcher) { return launcher.second == ranks; };
  if (launched.empty() || std::any_of(launched.begin(), launched.end(), agrees)) return;
  const auto& [launcher, started] = *launched.begin();
  throw Error(Errc::InvalidInput,
              launcher + " has started " + std::to_string(started) + " ranks, and " + library +
                  " counts " + std::to_string(ranks) +
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

/// Without MPI_Abort: mpirun would add a page of its own, and srun end with the signal that it
/// sends to the others.
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

int run_launched(int argc, char** argv, const std::function<bool()>& can_resume,
                 const std::function<int(runtime::Communicator&)>& work,
                 const GuardedRank& guarded) {
  runtime::MpiEnvironment mpi(argc, argv);
  try {
    omp_set_num_threads(threads_per_rank());
    runtime::MpiCommunicator comm(kTimeout);
    require_launchers_world(comm.size(), mpi.library());
    require_all_ranks(comm.size());
    if (comm.rank() == 0) {
      std::fprintf(stderr, "%d ranks by %s\n", comm.size(), mpi.library().c_str());
    }
    int status = 0;
    under_watch(comm, watch_options(can_resume, guarded), [&] { status = work(comm); });
    return status;
  } catch (const runtime::WatchError& e) {  // one rank has said why
    leave(exit_status(e, can_resume));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: rank %d: %s\n", mpi.rank(), escaped_lines(e.what()).c_str());
    guarded.end_is_known(GuardedRank::End::Mistake);
    mpi.abort(1);
  }
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

/// What the launchers set: Open MPI and PMIx, PMI (MPICH, Intel MPI, srun --mpi=pmi2), MVAPICH;
/// srun without any of these by its number of tasks, unless $DLFLOW_RANKS says that each is alone.
bool is_launched() {
  for (const char* name :
       {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    if (!environment_variable(name).empty()) return true;
  }
  const int tasks = number_from<int>(environment_variable("SLURM_STEP_NUM_TASKS")).value_or(1);
  return tasks > 1 && environment_variable("DLFLOW_RANKS") != "1";
}

int run_rank(int argc, char** argv, const std::function<bool()>& can_resume,
             const std::function<int(runtime::Communicator&)>& work, const GuardedRank& guarded) {
  flush_subnormals();
  if (!is_launched()) return run_alone(work);
  return run_step([&] { return run_launched(argc, argv, can_resume, work, guarded); });
}

}  // namespace dlflow::steps
