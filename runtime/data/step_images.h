#pragma once

#include <atomic>
#include <cstdint>

namespace dlflow::runtime {

/// What a loader asks for each image before it looks at it. Any thread calls it.
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
