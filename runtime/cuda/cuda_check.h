#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace dlflow::cuda {

/// Throws CUDA's error message; `call` is the failed call.
inline void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(status));
}

/// Checks a kernel that was just launched.
inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

}  // namespace dlflow::cuda
