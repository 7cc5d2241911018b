#pragma once

#include <memory>

#include "runtime/train/recording.h"
#include "runtime/train/split.h"
#include "runtime/train/trainer.h"
#include "runtime/train/worker.h"

namespace dlflow::runtime {

/// Returns a worker on this rank's GPU, which holds weights, gradients and velocities
/// (runtime/gpu/replica.h). Its checkpoints have the same content as a CPU worker's. Collective
/// over all ranks of `comm`; the arguments must outlive the result. Throws what GpuReplica throws.
std::unique_ptr<Worker> make_gpu_worker(Communicator& comm, const TrainingJob& job,
                                        const TrainingData& data,
                                        const Normalization& normalization, Recording& recording,
                                        WorkerHooks hooks);

}  // namespace dlflow::runtime
