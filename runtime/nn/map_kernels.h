#pragma once

#include "runtime/nn/kernels.h"
#include "runtime/nn/row_kernels.h"

/// Loops over maps (B,C,H,W) that process each group of channels separately. Numbers are fp32 or
/// bf16; computation is in fp32. Single-threaded; the same arguments give the same bits.
namespace dlflow::runtime {

/// A range of channels of a map.
struct ChannelRange {
  const MapGeometry& geometry;
  Numbers map;
  int64_t first = 0;
};

/// Copies `channels` channels between maps with equal numbers of images and pixels.
void copy_channels(const ChannelRange& from, const ChannelRange& to, int64_t channels);

/// Group normalisation (Wu and He, ECCV 2018): each image's channels form `groups` sets of
/// neighbours, each with its own mean and variance.
struct GroupNorm {
  MapGeometry geometry;
  int64_t channels = 0, groups = 1;
  const float* weight = nullptr;  ///< (C), padded to a multiple of 16
  const float* bias = nullptr;
};

/// Writes mean and 1 / sqrt(variance + kNormEpsilon) of each image and group, (B, groups).
void group_norm_forward(const GroupNorm& norm, Numbers x, Numbers y, float* means, float* scales);

/// Writes dx and the gradients of weight and bias.
void group_norm_backward(const GroupNorm& norm, const NormBackward& pass, NormGradients gradients);

/// Adaptive pooling: each pixel of y is the mean of a rectangle of x. The rectangles cover the map,
/// from floor(i * H / H') to ceil((i + 1) * H / H').
void adaptive_pool_forward(const MapGeometry& from, const MapGeometry& to, Numbers x, Numbers y);
void adaptive_pool_backward(const MapGeometry& from, const MapGeometry& to, Numbers dy, Numbers dx);

/// y(i, j) = x(i / scale, j / scale).
void upsample_forward(const MapGeometry& from, int64_t scale, const MapGeometry& to, Numbers x,
                      Numbers y);
void upsample_backward(const MapGeometry& from, int64_t scale, const MapGeometry& to, Numbers dy,
                       Numbers dx);

/// map += bias, per channel; `bias` is padded to a multiple of 16 numbers.
void add_bias(const MapGeometry& geometry, Numbers map, const float* bias);

/// The sum of each channel, (C).
void sum_channels(const MapGeometry& geometry, int64_t channels, Numbers map, float* sums);

/// Maps in plain order.
struct PlainMaps {
  int64_t images = 0, channels = 0, pixels = 0;
};
void add_bias(const PlainMaps& shape, Numbers maps, const float* bias);
void sum_channels(const PlainMaps& shape, Numbers maps, float* sums);

struct DropMask {
  const uint8_t* keeps = nullptr;  ///< one byte per (image, pixel, channel), in this order
  int64_t channels = 0;
  float factor = 1;
};

/// y = x * factor where `keeps` is not 0, else 0.
void drop(const MapGeometry& geometry, DropMask mask, Numbers x, Numbers y);

}  // namespace dlflow::runtime
