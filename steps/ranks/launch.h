#pragma once

#include <functional>

#include "runtime/comm/communicator.h"

namespace dlflow::steps {

/// Runs `work` as one rank and returns what it returned: under mpirun or srun as one of theirs,
/// else alone and without MPI. One thread per rank computes, or as many as DLFLOW_CPUS_PER_RANK
/// says.
///
/// If `work` throws, prints "error: …" and ends with status 1. With several ranks the message
/// begins with the rank, and all ranks are ended: the others would wait for it.
int run_rank(int argc, char** argv, const std::function<int(runtime::Communicator&)>& work);

/// DLFLOW_CPUS_PER_RANK, or 1.
int threads_per_rank();

}  // namespace dlflow::steps
