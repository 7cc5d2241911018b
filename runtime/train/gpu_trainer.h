#pragma once

#include <atomic>

#include "runtime/train/trainer.h"

namespace dlflow::runtime {

/// train() with `device: cuda`: the same loop, checkpoints and reports, while weights, gradients
/// and velocities stay on the ranks' GPUs (runtime/gpu/replica.h). Checkpoints are the same files;
/// a run can go on where one on CPUs stopped, and the other way round.
///
/// Also throws what GpuReplica throws.
TrainingEnd train_on_gpu(Communicator& comm, TrainingJob job, const std::atomic<bool>& stop);

}  // namespace dlflow::runtime
