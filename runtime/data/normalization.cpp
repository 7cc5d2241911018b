#include "runtime/data/normalization.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/vector_clones.h"
#include "runtime/data/jpeg_samples.h"

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

void add(PixelSums& sums, std::span<const uint8_t> pixels) {
  uint64_t sum = 0, squares = 0;
  for (const uint64_t value : pixels) {
    sum += value;
    squares += value * value;
  }
  sums.bytes += sum;
  sums.squared_bytes += squares;
}

void add(PixelSums& sums, std::span<const float> pixels) {
  for (const double value : pixels) {
    sums.floats += value;
    sums.squared_floats += value * value;
  }
}

}  // namespace

size_t num_normalization_blocks(const Dataset& dataset) {
  return (dataset.size() + kNormalizationBlock - 1) / kNormalizationBlock;
}

std::vector<PixelSums> sums_of_block(const Dataset& dataset, size_t block, StepImages* images) {
  std::vector<PixelSums> sums(dataset.shape.channels);
  const size_t plane = size_t(dataset.shape.height) * dataset.shape.width;
  const size_t first = block * kNormalizationBlock;
  const size_t end = std::min(first + kNormalizationBlock, dataset.size());
  const auto add_image = [&](const auto* image) {
    for (size_t c = 0; c < sums.size(); ++c) add(sums[c], {image + c * plane, plane});
  };
  JpegSamples samples;
  std::vector<uint8_t> decoded(dataset.is_encoded() ? dataset.shape.num_values() : 0);
  const auto add_pixels = [&]<typename Pixels>(const Pixels& pixels) {
    for (size_t i = first; i < end; ++i) {
      if (images != nullptr) images->check(pixels[i].data());
      if constexpr (std::is_same_v<Pixels, EncodedImages>) {
        write_as_reshaped(dataset, pixels[i], pixels.name_of(i), samples, decoded.data());
        add_image(decoded.data());
      } else {
        add_image(pixels[i].data());
      }
    }
  };
  std::visit(add_pixels, dataset.pixels);
  return sums;
}

Normalization normalization_of(const Dataset& dataset, std::span<const PixelSums> sums) {
  DLFLOW_CHECK(dataset.size() > 0);
  const double count = double(dataset.size() * size_t(dataset.shape.height) * dataset.shape.width);
  Normalization normalization;
  for (uint32_t channel = 0; channel < dataset.shape.channels; ++channel) {
    PixelSums all;
    for (size_t i = channel; i < sums.size(); i += dataset.shape.channels) {
      all.bytes += sums[i].bytes;
      all.squared_bytes += sums[i].squared_bytes;
      all.floats += sums[i].floats;
      all.squared_floats += sums[i].squared_floats;
    }
    // One of the two terms is zero.
    const double sum = double(all.bytes) + all.floats;
    const double squares = double(all.squared_bytes) + all.squared_floats;
    const double mean = sum / count;
    const double variance = squares / count - mean * mean;
    const double scale = variance > 0 ? 1 / std::sqrt(variance) : 1;
    normalization.scale.push_back(float(scale));
    normalization.shift.push_back(float(-mean * scale));
  }
  return normalization;
}

Normalization normalization_of(const Dataset& dataset) {
  std::vector<PixelSums> sums;
  for (size_t block = 0; block < num_normalization_blocks(dataset); ++block) {
    const std::vector<PixelSums> part = sums_of_block(dataset, block);
    sums.insert(sums.end(), part.begin(), part.end());
  }
  return normalization_of(dataset, sums);
}

template <typename T>
void normalize(const Normalization& normalization, const ImageShape& shape, const T* pixels,
               float* output) {
  const size_t plane = size_t(shape.height) * shape.width;
  for (uint32_t c = 0; c < shape.channels; ++c) {
    scale_and_shift(pixels + c * plane, output + c * plane, plane, normalization.scale[c],
                    normalization.shift[c]);
  }
}

template void normalize(const Normalization&, const ImageShape&, const uint8_t*, float*);
template void normalize(const Normalization&, const ImageShape&, const float*, float*);

}  // namespace dlflow::runtime
