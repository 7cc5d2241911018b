#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/handle.h"

namespace dlflow {

/// A GPU of this machine, held against the jobs of all other runs and users.
///
/// It is a name in the kernel's table of abstract sockets. Whoever has a copy of the descriptor
/// holds the GPU: the engine from the moment it chooses, and the supervisor, which gets a copy with
/// its pass, for as long as the program runs, whatever becomes of the engine. The kernel lets go of
/// the name with the last copy, so that a kill -9 or a restart of the machine leaves nothing behind
/// that somebody would have to remove or believe.
class GpuLock {
 public:
  /// \param gpu  as CUDA_VISIBLE_DEVICES names it. One that is called "0" here and by its UUID
  ///             there is not recognised as one.
  /// Nothing if another process holds it. Throws Error if there can be no more descriptors.
  static std::optional<GpuLock> try_acquire(const std::string& gpu);

  int descriptor() const { return name_.get(); }

 private:
  explicit GpuLock(FileDescriptor name) : name_(std::move(name)) {}

  FileDescriptor name_;
};

}  // namespace dlflow
