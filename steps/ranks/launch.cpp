#include "steps/ranks/launch.h"

#include <omp.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <string>

#include "base/error.h"
#include "runtime/comm/mpi_communicator.h"
#include "runtime/comm/thread_communicator.h"
#include "steps/environment/step_environment.h"

namespace dlflow::steps {
namespace {

/// A peer that is silent for longer is taken for dead; a checkpoint or a slow disk takes less.
constexpr std::chrono::minutes kTimeout(2);

/// What the launchers set: Open MPI and PMIx, PMI (MPICH, Intel MPI, srun --mpi=pmi2), MVAPICH.
bool is_launched() {
  for (const char* name :
       {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    if (!environment_variable(name).empty()) return true;
  }
  return false;
}

int positive_variable(const char* name, int otherwise) {
  const std::string text = environment_variable(name);
  if (text.empty()) return otherwise;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) {
    throw Error(Errc::InvalidInput,
                "$" + std::string(name) + ": '" + text + "' is not a whole number of at least 1");
  }
  return value;
}

void require_all_ranks(int ranks) {
  const int wanted = positive_variable("DLFLOW_RANKS", ranks);
  if (wanted == ranks) return;
  throw Error(Errc::InvalidInput, "$DLFLOW_RANKS is " + std::to_string(wanted) + ", but there " +
                                      (ranks == 1 ? "is " : "are ") + std::to_string(ranks) +
                                      "; start with mpirun -np " + std::to_string(wanted));
}

int run_alone(const std::function<int(runtime::Communicator&)>& work) {
  return run_step([&] {
    omp_set_num_threads(threads_per_rank());
    require_all_ranks(1);
    runtime::ThreadGroup alone(1);
    return work(alone.communicator(0));
  });
}

int run_launched(int argc, char** argv, const std::function<int(runtime::Communicator&)>& work) {
  runtime::MpiEnvironment mpi(argc, argv);
  try {
    omp_set_num_threads(threads_per_rank());
    runtime::MpiCommunicator comm(kTimeout);
    require_all_ranks(comm.size());
    return work(comm);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rank %d: error: %s\n", mpi.rank(), e.what());
    mpi.abort(1);
  }
}

}  // namespace

int threads_per_rank() { return positive_variable("DLFLOW_CPUS_PER_RANK", 1); }

int run_rank(int argc, char** argv, const std::function<int(runtime::Communicator&)>& work) {
  return is_launched() ? run_launched(argc, argv, work) : run_alone(work);
}

}  // namespace dlflow::steps
