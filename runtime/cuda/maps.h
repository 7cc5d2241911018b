#pragma once

#include <cuda_runtime.h>

#include <cstdint>

/// The arguments that several kernels share.
namespace dlflow::cuda {

/// The shape of (batch, channels, pixels) floats in plain order.
struct Maps {
  int64_t batch = 0, channels = 0, pixels = 0;
};

/// A result; passed through ReLU if requested.
struct Output {
  float* y = nullptr;
  bool relu = false;
};

/// The destination of a gradient; none if `to` is null.
struct GradientTo {
  float* to = nullptr;
  bool adds = false;
};

/// Device addresses of an operation's parameters or of their gradients; null if there are none.
/// Batch statistics take the place of the gradients of mean and variance.
struct Parameters {
  float *weight = nullptr, *bias = nullptr, *mean = nullptr, *variance = nullptr;
};

/// A stream, and the scratch memory that its kernels use in turn.
struct ScratchStream {
  cudaStream_t stream = nullptr;
  void* scratch = nullptr;
};

}  // namespace dlflow::cuda
