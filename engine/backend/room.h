#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/backend/gpu_lock.h"
#include "engine/backend/machine.h"

namespace dlflow {

/// The free resources of a machine. Cores and memory used by other runs do not count; GPUs used by
/// other runs are not free.
class Room {
 public:
  explicit Room(Machine machine);

  const Machine& machine() const { return machine_; }

  /// Whether there is room for a job with `resources`. Reserves its GPUs against other runs until
  /// the next call of take().
  bool fits(const Resources& resources);

  /// Takes the resources of a job. fits() must have returned true. Returns its GPUs by their names
  /// in CUDA_VISIBLE_DEVICES.
  std::vector<std::string> take(const Resources& resources);

  /// Takes the resources of a job that is already running, even if there is no room. `gpus` are
  /// those it was given; returns those that this machine has.
  std::vector<std::string> take(const Resources& resources, const std::vector<std::string>& gpus);

  void give_back(const Resources& resources, const std::vector<std::string>& gpus);

  /// The locks on `gpus`, for their supervisor. Supervisors of adopted jobs have their own.
  std::vector<int> descriptors_of(const std::vector<std::string>& gpus) const;

 private:
  bool reserve(size_t count);

  Machine machine_;
  int free_cores_;                        // negative if adopted jobs exceed it
  int64_t free_memory_;                   // the same
  std::vector<std::string> free_gpus_;    // not used by jobs of this run
  std::map<std::string, GpuLock> locks_;  // for jobs of this run, and reserved by fits()
};

}  // namespace dlflow
