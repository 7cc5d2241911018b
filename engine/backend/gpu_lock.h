#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/handle.h"

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

}  // namespace dlflow
