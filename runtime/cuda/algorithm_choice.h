#pragma once

#include <cudnn.h>

#include <cstddef>
#include <span>

namespace dlflow::cuda {

/// The limits of an algorithm.
struct Rules {
  size_t most_workspace = 0;  ///< bytes
  bool tensor_cores = false;  ///< allowed; they round the factors of products
};

/// Chooses an algorithm for a pass of a convolution: of those that are deterministic and within the
/// limits, the one that cuDNN estimates to be fastest; else `fallback`, which cuDNN documents to be
/// both. Estimates, unlike measurements, are the same every time.
template <typename Found, typename Algorithm>
Algorithm choose_algorithm(std::span<const Found> fastest_first, Algorithm fallback,
                           const Rules& rules) {
  for (const Found& found : fastest_first) {
    const bool tensor_cores = found.mathType == CUDNN_TENSOR_OP_MATH ||
                              found.mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
    if (found.status == CUDNN_STATUS_SUCCESS && found.determinism == CUDNN_DETERMINISTIC &&
        (rules.tensor_cores || !tensor_cores) && found.memory <= rules.most_workspace) {
      return found.algo;
    }
  }
  return fallback;
}

}  // namespace dlflow::cuda
