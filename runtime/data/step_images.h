#pragma once

#include <atomic>
#include <cstdint>

namespace dlflow::runtime {

/// Asked for each image before a loader looks at it, by any thread.
class StepImages {
 public:
  virtual ~StepImages() = default;

  /// Throws Error if the data set's `image` cannot be read, or is damaged.
  virtual void check(const void* image) = 0;

  /// Grows for as long as what somebody may wait for comes in, to any rank of the node. Lives as
  /// long as the communicator.
  virtual std::atomic<uint64_t>& arrivals() = 0;
};

}  // namespace dlflow::runtime
