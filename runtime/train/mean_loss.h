#pragma once

#include <cstdint>

namespace dlflow::runtime {

/// Of steps, each of which counts as much.
struct MeanLoss {
  double sum = 0;
  uint64_t steps = 0;

  void add(double loss) {
    sum += loss;
    ++steps;
  }
  double mean() const { return steps > 0 ? sum / double(steps) : 0; }
  bool operator==(const MeanLoss&) const = default;
};

}  // namespace dlflow::runtime
