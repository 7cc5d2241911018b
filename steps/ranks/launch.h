#pragma once

#include <chrono>
#include <functional>

#include "runtime/comm/communicator.h"
#include "steps/ranks/guard.h"

namespace dlflow::steps {

/// Runs `work` as one rank and returns what it returned: under mpirun, srun or start_ranks() as one
/// of theirs, else alone. Ranks meet by the launcher's MPI library; where there is none that can be
/// opened, by TCP and the memory of a node, through a file in the current folder. One thread per
/// rank computes, or as many as DLFLOW_CPUS_PER_RANK says. Subnormal numbers are zero in all of its
/// threads (flush_subnormals).
///
/// If `work` throws on any rank, or a rank dies or hangs (runtime/watch/watch.h), all ranks end,
/// and one prints "error: …" with rank and node. The status is 1; 75 if the cause is a rank that
/// died or hangs, and can_resume() says that another start can go on.
///
/// `guarded`: this process, if it has a guard.
int run_rank(int argc, char** argv, const std::function<bool()>& can_resume,
             const std::function<int(runtime::Communicator&)>& work,
             const GuardedRank& guarded = {});

/// Whether a launcher started this process as one of several ranks. A task of srun is one, unless
/// DLFLOW_RANKS is 1.
bool is_launched();

/// Returns in as many child processes, each of which is_launched(), and no MPI joins them. This
/// process passes signals on to them and ends once they have, with the status of the first that
/// failed. They die with it. For main, before there are threads.
void start_ranks(int ranks);

/// In this thread and in those that it starts, fp32 numbers of magnitude below 1.2e-38 are zero,
/// as on TensorFlow's threads. The gradients of a network that has learned its samples are full of
/// them, and processors are slow with them: lenet took 51 s of a core for what now takes 7.
void flush_subnormals();

/// DLFLOW_CPUS_PER_RANK, or 1.
int threads_per_rank();

/// DLFLOW_STALL_TIMEOUT, or 60 s: for how long a rank that others wait for may do nothing.
std::chrono::seconds stall_timeout();

}  // namespace dlflow::steps
