#pragma once

#include <atomic>
#include <cstdint>

namespace dlflow::runtime {

/// Checks each image before a loader reads it. Any thread may call it.
class StepImages {
 public:
  virtual ~StepImages() = default;

  /// Throws Error if the data set's `image` cannot be read, or is damaged.
  virtual void check(const void* image) = 0;

  /// Grows while data arrives on any rank of the node, as a sign of life for ranks that wait. Lives
  /// as long as the communicator.
  virtual std::atomic<uint64_t>& arrivals() = 0;
};

}  // namespace dlflow::runtime
