#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace dlflow::runtime {

/// The numbers of a step that is done. Waits are means over the ranks.
struct StepMetrics {
  uint64_t step = 0;           ///< of the whole run, from 0
  size_t samples = 0;          ///< of all ranks
  std::optional<double> loss;  ///< the mean over those samples of which it is known
  size_t weight = 0;           ///< of the loss in that of an epoch, if not `samples`
  size_t tokens = 0;           ///< of texts of unequal length, of all ranks
  double data_wait_s = 0;
  /// For gradients of other ranks, while nothing else was left to do; of the step before. Nothing
  /// where it is not measured.
  std::optional<double> communication_wait_s = {};
  double learning_rate = 0;
  std::optional<double> gradient_norm = {};  ///< Euclidean, of the step that was measured last
};

}  // namespace dlflow::runtime
