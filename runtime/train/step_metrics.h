#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace dlflow::runtime {

/// The numbers of a completed step. Waits are means over the ranks.
struct StepMetrics {
  uint64_t step = 0;           ///< in the whole run, from 0
  size_t samples = 0;          ///< over all ranks
  std::optional<double> loss;  ///< mean over the samples with a known loss
  size_t weight = 0;           ///< weight of `loss` in the epoch's mean; 0: `samples`
  size_t tokens = 0;           ///< for texts of different lengths: over all ranks
  double data_wait_s = 0;
  /// Idle time spent waiting for gradients of other ranks in the previous step. Nothing if it is
  /// not measured.
  std::optional<double> communication_wait_s = {};
  double learning_rate = 0;
  std::optional<double> gradient_norm = {};  ///< Euclidean, of the last measured step
};

}  // namespace dlflow::runtime
