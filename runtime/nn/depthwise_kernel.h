#pragma once

#include "runtime/nn/kernels.h"
#include "runtime/nn/model.h"

/// Convolutions of each channel with its own kernel, for shapes that oneDNN has no fast code for,
/// such as kernels larger than the map. Plain C++, compiled as described in kernels.h.
namespace dlflow::runtime {

/// The maps of x and y have the same channels, grouped alike.
struct DepthwiseShape {
  MapGeometry x, y;
  Extent kernel, stride, padding, dilation;

  int64_t taps() const { return kernel.height * kernel.width; }
};

/// Weights lie as (groups, taps, 16), oneDNN's Goihw16g, biases as (groups, 16); both are 0 for
/// padding channels.

/// y = convolution of x (+ bias, if given), then ReLU, if requested.
void depthwise_forward(const DepthwiseShape& shape, const float* x,
                       ConvolutionParameters parameters, bool relu, float* y);

/// The gradient of x.
void depthwise_backward_data(const DepthwiseShape& shape, const float* dy, const float* weight,
                             float* dx);

/// The gradients of weight and bias (if requested): single precision within an image, double across
/// images.
void depthwise_backward_weights(const DepthwiseShape& shape, const float* x, const float* dy,
                                float* dweight, float* dbias);

}  // namespace dlflow::runtime
