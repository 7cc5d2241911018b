#pragma once

#include "runtime/nn/kernels.h"

/// Winograd's algorithm F(4x4, 3x3): convolutions with a 3 x 3 window and stride 1, with a quarter
/// of the multiplications of direct convolution, on one thread. Rounding errors are about ten times
/// larger. Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016.
/// Plain C++, compiled as described in kernels.h.
namespace dlflow::runtime {

/// The registers that the kernels use; the bits are the same.
enum class Registers { Avx2, Avx512 };

/// Whether the processor has these registers.
bool has(Registers registers);

/// The maps of x and y have whole groups of 16 channels; the padding determines the size of y.
struct WinogradShape {
  MapGeometry x, y;
  int64_t padding_height = 0, padding_width = 0;
  Registers registers = Registers::Avx2;  ///< must exist on this processor
};

/// Weights lie as (groups of y, groups of x, 9, 16 of x, 16 of y), oneDNN's OIhw16i16o.

/// y = convolution of x (+ bias, if given), then ReLU, if requested.
void winograd_forward(const WinogradShape& shape, const float* x, ConvolutionParameters parameters,
                      bool relu, float* y);

/// The gradient of x.
void winograd_backward_data(const WinogradShape& shape, const float* dy, const float* weight,
                            float* dx);

/// The gradients of weight and bias (if requested).
void winograd_backward_weights(const WinogradShape& shape, const float* x, const float* dy,
                               float* dweight, float* dbias);

}  // namespace dlflow::runtime
