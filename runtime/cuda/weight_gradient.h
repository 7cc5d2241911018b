#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cuda/maps.h"

namespace dlflow::cuda {

struct ConvolutionShape {
  int batch = 0, input_channels = 0, height = 0, width = 0;
  int output_channels = 0, output_height = 0, output_width = 0;
  int kernel_height = 0, kernel_width = 0, stride = 1, padding = 0;
};

/// Whether weight_gradient() fills a device better than cuDNN's ALGO_1, in which one block adds up
/// all positions of its weights: on an H200 that took 377 us for 512 weights, and twice as long as
/// this for most of resnet50.
bool splits_weight_gradient(const ConvolutionShape& shape);

/// Bytes of scratch memory.
size_t weight_gradient_scratch(const ConvolutionShape& shape);

/// The gradient of a convolution's weights (output channels, input channels, kernel height, kernel
/// width) from its input and the gradient `dy` of its output. Blocks share the positions, and their
/// results are added in a fixed order: the same numbers give the same bits.
void weight_gradient(const ConvolutionShape& shape, const float* x, const float* dy,
                     float* gradient, ScratchStream on);

}  // namespace dlflow::cuda
