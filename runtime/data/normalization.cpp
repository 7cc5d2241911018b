#include "runtime/data/normalization.h"

#include <cmath>
#include <type_traits>

#include "base/error.h"
#include "base/vector_clones.h"

namespace dlflow::runtime {
namespace {

DLFLOW_VECTOR_CLONES
void scale_and_shift(const uint8_t* __restrict pixels, float* __restrict output, size_t count,
                     float scale, float shift) {
  for (size_t i = 0; i < count; ++i) output[i] = float(pixels[i]) * scale + shift;
}

DLFLOW_VECTOR_CLONES
void scale_and_shift(const float* __restrict pixels, float* __restrict output, size_t count,
                     float scale, float shift) {
  for (size_t i = 0; i < count; ++i) output[i] = pixels[i] * scale + shift;
}

template <typename T>
void normalize_image(const Normalization& normalization, const ImageShape& shape, const T* pixels,
                     float* output) {
  const size_t plane = size_t(shape.height) * shape.width;
  for (uint32_t c = 0; c < shape.channels; ++c) {
    scale_and_shift(pixels + c * plane, output + c * plane, plane, normalization.scale[c],
                    normalization.shift[c]);
  }
}

/// Scale and shift of one channel.
template <typename T>
std::pair<float, float> channel_normalization(const Images<T>& images, const ImageShape& shape,
                                              uint32_t channel) {
  using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  const size_t plane = size_t(shape.height) * shape.width;
  Sum sum = 0, squares = 0;
  size_t count = 0;
  for (size_t i = 0; i < images.size(); ++i) {
    for (const T value : images[i].subspan(channel * plane, plane)) {
      sum += value;
      squares += Sum(value) * Sum(value);
    }
    count += plane;
  }
  const double mean = double(sum) / double(count);
  const double variance = double(squares) / double(count) - mean * mean;
  const double scale = variance > 0 ? 1 / std::sqrt(variance) : 1;
  return {float(scale), float(-mean * scale)};
}

}  // namespace

Normalization normalization_of(const Dataset& dataset) {
  DLFLOW_CHECK(dataset.size() > 0);
  Normalization normalization;
  std::visit(
      [&](const auto& pixels) {
        for (uint32_t channel = 0; channel < dataset.shape.channels; ++channel) {
          const auto [scale, shift] = channel_normalization(pixels, dataset.shape, channel);
          normalization.scale.push_back(scale);
          normalization.shift.push_back(shift);
        }
      },
      dataset.pixels);
  return normalization;
}

void normalize(const Normalization& normalization, const ImageShape& shape, const uint8_t* pixels,
               float* output) {
  normalize_image(normalization, shape, pixels, output);
}

void normalize(const Normalization& normalization, const ImageShape& shape, const float* pixels,
               float* output) {
  normalize_image(normalization, shape, pixels, output);
}

}  // namespace dlflow::runtime
