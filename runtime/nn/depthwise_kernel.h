#pragma once

#include "runtime/nn/kernels.h"
#include "runtime/nn/model.h"

/// Convolutions of each channel with a kernel of its own, for the shapes that oneDNN has no fast
/// code for: among others those of kernels larger than the map. Plain C++, compiled as kernels.h
/// says.
namespace dlflow::runtime {

/// The maps of x and y have the same channels, grouped alike.
struct DepthwiseShape {
  MapGeometry x, y;
  Extent kernel, stride, padding, dilation;

  int64_t taps() const { return kernel.height * kernel.width; }
};

/// Weights lie as (groups, taps, 16), oneDNN's Goihw16g, biases as (groups, 16); both are 0 for
/// channels that are not there.

/// y = convolution of x (+ bias, if given), then ReLU, if asked for.
void depthwise_forward(const DepthwiseShape& shape, const float* x, const float* weight,
                       const float* bias, bool relu, float* y);

/// The gradient of x.
void depthwise_backward_data(const DepthwiseShape& shape, const float* dy, const float* weight,
                             float* dx);

/// The gradients of weight and bias (if asked for): single precision within an image, double over
/// images.
void depthwise_backward_weights(const DepthwiseShape& shape, const float* x, const float* dy,
                                float* dweight, float* dbias);

}  // namespace dlflow::runtime
