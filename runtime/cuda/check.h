#pragma once

#include <cublasLt.h>
#include <cudnn.h>

#include "runtime/cuda/cuda_check.h"

/// Overloads of check() for the other libraries.
namespace dlflow::cuda {

inline void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char more[512] = "";
  cudnnGetLastErrorString(more, sizeof(more));
  std::string text = std::string(call) + ": " + cudnnGetErrorString(status);
  if (*more) text += std::string(" (") + more + ")";
  throw std::runtime_error(text);
}

inline void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string(call) + ": " + cublasLtGetStatusString(status));
}

}  // namespace dlflow::cuda
