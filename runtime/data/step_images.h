#pragma once

#include <atomic>
#include <cstdint>

namespace dlflow::runtime {

/// Asked for each image before a loader looks at it, by any thread.
class StepImages {
 public:
  virtual ~StepImages() = default;

  /// `image`, which the data set has there. Throws Error if it cannot be read, or is damaged.
  virtual const void* find(const void* image) = 0;

  /// Grows for as long as what somebody may wait for comes in, to any rank of the node. Lives as
  /// long as the communicator.
  virtual std::atomic<uint64_t>& arrivals() = 0;
};

}  // namespace dlflow::runtime
