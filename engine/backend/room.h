#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/handle.h"
#include "engine/backend/machine.h"

namespace dlflow {

/// A lock on a GPU of this machine, against the jobs of all other runs and users.
///
/// It is a name in the kernel's table of abstract sockets, held by every process with a copy of the
/// descriptor: the engine from the moment it chooses the GPU, and the supervisor, which gets a copy
/// with its pass, as long as the program runs, even without the engine. The kernel releases the
/// name with the last copy, so that a kill -9 or a reboot leaves no stale lock.
class GpuLock {
 public:
  /// \param gpu  a name from CUDA_VISIBLE_DEVICES. A GPU named "0" here and by its UUID elsewhere
  ///             is not recognised as the same.
  /// Returns nothing if another process holds it. Throws Error if no descriptors are left.
  static std::optional<GpuLock> try_acquire(const std::string& gpu);

  int descriptor() const { return name_.get(); }

 private:
  explicit GpuLock(FileDescriptor name) : name_(std::move(name)) {}

  FileDescriptor name_;
};

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
