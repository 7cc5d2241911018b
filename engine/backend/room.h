#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/backend/gpu_lock.h"
#include "engine/backend/machine.h"

namespace dlflow {

/// The resources of a machine that are free for jobs. Cores and memory are counted for this run
/// alone; a GPU that another run has is not free.
class Room {
 public:
  explicit Room(Machine machine);

  const Machine& machine() const { return machine_; }

  /// Whether a job that asks for `resources` has room. The GPUs that it would get are kept from
  /// other runs until the next call of take().
  bool fits(const Resources& resources);

  /// Takes what a job asks for, after fits() said that there is room. Returns its GPUs, as
  /// CUDA_VISIBLE_DEVICES names them.
  std::vector<std::string> take(const Resources& resources);

  /// The same for a job that runs already, whether there is room for it or not. `gpus` are those it
  /// was given; returns those that this machine has.
  std::vector<std::string> take(const Resources& resources, const std::vector<std::string>& gpus);

  void give_back(const Resources& resources, const std::vector<std::string>& gpus);

  /// What holds `gpus`, for their supervisor. Those of a job that ran already are held by its own.
  std::vector<int> descriptors_of(const std::vector<std::string>& gpus) const;

 private:
  bool reserve(size_t count);

  Machine machine_;
  int free_cores_;                        // may be below 0: jobs that run already are not asked
  int64_t free_memory_;                   // the same
  std::vector<std::string> free_gpus_;    // no job of this run has them
  std::map<std::string, GpuLock> locks_;  // of jobs of this run, and of what fits() keeps
};

}  // namespace dlflow
