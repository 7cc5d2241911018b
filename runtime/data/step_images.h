#pragma once

#include <atomic>
#include <cstdint>

namespace dlflow::runtime {

/// Where the images of a step lie while a loader looks at them, if that is not where the data set
/// has them. One thread calls it, but for stop().
class StepImages {
 public:
  virtual ~StepImages() = default;

  /// Images of this step are looked at until end(); steps come in order. What has to be waited for
  /// is waited for here and in find(). Both throw Error if it cannot be had, or was stopped.
  virtual void begin(uint64_t epoch, uint64_t step) = 0;

  /// `image`, which the data set has there; valid until end().
  virtual const void* find(const void* image) = 0;
  virtual void end() = 0;

  /// Ends all waits, also later ones.
  virtual void stop() = 0;

  /// Grows for as long as what somebody may wait for comes in, to any rank of the node. Lives as
  /// long as the communicator.
  virtual std::atomic<uint64_t>& arrivals() = 0;
};

}  // namespace dlflow::runtime
