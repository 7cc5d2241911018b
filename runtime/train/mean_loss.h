#pragma once

#include <cstdint>

namespace dlflow::runtime {

/// The mean loss over samples. All samples count equally, so a smaller last step counts less.
struct MeanLoss {
  double sum = 0;
  uint64_t samples = 0;

  /// `loss`: the mean over `count` samples.
  void add(double loss, uint64_t count) {
    sum += loss * double(count);
    samples += count;
  }
  double mean() const { return samples > 0 ? sum / double(samples) : 0; }
  bool operator==(const MeanLoss&) const = default;
};

}  // namespace dlflow::runtime
