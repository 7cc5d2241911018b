#pragma once

#include <memory>

#include "runtime/train/recording.h"
#include "runtime/train/split.h"
#include "runtime/train/trainer.h"
#include "runtime/train/worker.h"

namespace dlflow::runtime {

/// A worker on this rank's GPU, where weights, gradients and velocities stay
/// (runtime/gpu/replica.h). What goes to checkpoints is what a CPU puts there.
/// Collective over all ranks, `comm`; what is given must outlive it. Throws what GpuReplica throws.
std::unique_ptr<Worker> make_gpu_worker(Communicator& comm, const TrainingJob& job,
                                        const TrainingData& data,
                                        const Normalization& normalization, Recording& recording,
                                        WorkerHooks hooks);

}  // namespace dlflow::runtime
