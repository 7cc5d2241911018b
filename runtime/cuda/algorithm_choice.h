#pragma once

#include <cudnn.h>

#include <cstddef>
#include <span>

namespace dlflow::cuda {

constexpr size_t kMostWorkspace = size_t(256) << 20;

/// The algorithm for a pass of a convolution: the fastest, as cuDNN guesses, of those that always
/// compute the same bits, in kMostWorkspace and, unless they may, without tensor cores; else
/// `fallback`, which cuDNN documents to do so too. Guessed, not measured: the same every time.
template <typename Found, typename Algorithm>
Algorithm choose_algorithm(std::span<const Found> fastest_first, Algorithm fallback,
                           bool may_use_tensor_cores = false) {
  for (const Found& found : fastest_first) {
    const bool tensor_cores = found.mathType == CUDNN_TENSOR_OP_MATH ||
                              found.mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
    if (found.status == CUDNN_STATUS_SUCCESS && found.determinism == CUDNN_DETERMINISTIC &&
        (may_use_tensor_cores || !tensor_cores) && found.memory <= kMostWorkspace) {
      return found.algo;
    }
  }
  return fallback;
}

}  // namespace dlflow::cuda
