#pragma once

#include <chrono>
#include <functional>

#include "runtime/comm/communicator.h"
#include "steps/ranks/guard.h"

namespace dlflow::steps {

/// Runs `work` as one rank and returns its result: as a rank of mpirun, srun or start_ranks(), else
/// alone. Ranks communicate through the launcher's MPI library. If none can be opened, they use TCP
/// and a node's shared memory, and meet through a file in the current folder. A rank computes with
/// DLFLOW_CPUS_PER_RANK threads, or one. Its threads flush subnormal numbers to zero
/// (flush_subnormals).
///
/// If `work` throws on any rank, or a rank dies or hangs (runtime/watch/watch.h), all ranks end,
/// and one prints "error: …" with rank and node. The status is 75 if a rank died or hung and
/// can_resume() returns that another start can continue; otherwise 1.
///
/// `guarded`: this process, if it has a guard.
int run_rank(int argc, char** argv, const std::function<bool()>& can_resume,
             const std::function<int(runtime::Communicator&)>& work,
             const GuardedRank& guarded = {});

/// Whether a launcher started this process as one of several ranks. This includes any task of srun,
/// unless DLFLOW_RANKS is 1.
bool is_launched();

/// Forks `ranks` child processes and returns in each of them; each is_launched(), without MPI. This
/// process passes on signals to them, waits for all, and ends with the status of the first that
/// failed. They die with it. Must be called in main before threads exist.
void start_ranks(int ranks);

/// Flushes fp32 numbers below 1.2e-38 to zero in this thread and in threads that it starts, as
/// TensorFlow does. The gradients of a network that has learned its samples are full of them, and
/// processors are slow with them: without this, lenet took 51 s of a core instead of 7.
void flush_subnormals();

/// DLFLOW_CPUS_PER_RANK, or 1.
int threads_per_rank();

/// DLFLOW_STALL_TIMEOUT, or 60 s: how long a rank that others wait for may make no progress.
std::chrono::seconds stall_timeout();

}  // namespace dlflow::steps
