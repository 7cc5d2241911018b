#include "runtime/data/jpeg_samples.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>

#include "base/vector_clones.h"

namespace dlflow::runtime {
namespace {

/// A pixel, with one lane per value.
using Lanes = float __attribute__((vector_size(16)));

/// The input of each output pixel along one direction: `length` input pixels from `first` on, and
/// their weights, some of which are 0.
struct Windows {
  size_t length = 0;
  std::vector<uint32_t> first;
  std::vector<float> weights;  ///< (pixels, length)

  std::span<const float> of(size_t pixel) const {
    return std::span(weights).subspan(pixel * length, length);
  }
};

/// The input of a view along one direction, in pixels reduced by `reduced_by`.
struct Input {
  uint32_t begin = 0, end = 0, reduced_by = 1;
};

Windows windows_of(const PictureAxis& axis, const Input& input) {
  const double scale = axis.scale / input.reduced_by, width = std::max(scale, 1.0);
  // Reads nothing outside of the view, except for the pixel on its border.
  const uint32_t begin = std::max(input.begin, axis.begin / input.reduced_by);
  const uint32_t end = std::min(input.end, (axis.end + input.reduced_by - 1) / input.reduced_by);
  Windows windows;
  windows.length = std::min(size_t(std::ceil(2 * width)) + 1, size_t(input.end - input.begin));
  windows.first.resize(axis.count);
  windows.weights.resize(axis.count * windows.length);
  for (size_t i = 0; i < axis.count; ++i) {
    const double center = axis.from / input.reduced_by + (double(i) + 0.5) * scale;
    const auto pixel_at = [&](double at, uint32_t least, uint32_t most) {
      return uint32_t(std::clamp(std::floor(at + 0.5), double(least), double(most)));
    };
    const uint32_t first = pixel_at(center - width, begin, end - 1);
    const uint32_t behind = pixel_at(center + width, first + 1, end);
    const uint32_t shown = std::min(first, input.end - uint32_t(windows.length));
    float* const weights = windows.weights.data() + i * windows.length;
    double sum = 0;
    for (uint32_t k = first; k < behind; ++k) {
      const double weight = std::max(0.0, 1 - std::abs((double(k) + 0.5 - center) / width));
      weights[k - shown] = float(weight);
      sum += weight;
    }
    for (size_t k = 0; k < windows.length; ++k) weights[k] = float(double(weights[k]) / sum);
    windows.first[i] = shown - input.begin;
  }
  return windows;
}

/// Computes `count` weighted sums over the rows of a window, `stride` values apart. Adds 0.5, so
/// that truncation rounds.
DLFLOW_VECTOR_CLONES
void add_up_rows(const uint8_t* __restrict rows, size_t stride, std::span<const float> weights,
                 float* __restrict output, size_t count) {
  std::fill_n(output, count, 0.5f);
  for (size_t k = 0; k < weights.size(); ++k) {
    const float weight = weights[k];
    if (weight == 0) continue;
    const uint8_t* __restrict row = rows + k * stride;
    for (size_t i = 0; i < count; ++i) output[i] += weight * float(row[i]);
  }
}

/// Writes one row of a sample from a row of sums, whose pixels have 4 values, 3 of them used.
void add_up_columns_in_color(const float* row, const Windows& across, bool flip, size_t plane,
                             uint8_t* output) {
  const size_t width = across.first.size();
  for (size_t x = 0; x < width; ++x) {
    const std::span<const float> weights = across.of(x);
    const float* const pixels = row + size_t(across.first[x]) * 4;
    Lanes sum = {0, 0, 0, 0};
    for (size_t k = 0; k < weights.size(); ++k) {
      Lanes pixel;
      std::memcpy(&pixel, pixels + 4 * k, sizeof(pixel));
      sum += weights[k] * pixel;
    }
    uint8_t* const to = output + (flip ? width - 1 - x : x);
    for (size_t c = 0; c < 3; ++c) to[c * plane] = uint8_t(sum[c]);
  }
}

/// The same for pixels of one value.
void add_up_columns(const float* row, const Windows& across, bool flip, uint8_t* output) {
  const size_t width = across.first.size();
  for (size_t x = 0; x < width; ++x) {
    const std::span<const float> weights = across.of(x);
    float sum = 0;
    for (size_t k = 0; k < weights.size(); ++k) sum += weights[k] * row[across.first[x] + k];
    output[flip ? width - 1 - x : x] = uint8_t(sum);
  }
}

PictureAxis axis_of(uint32_t begin, uint32_t length, uint32_t count) {
  return {double(begin), double(length) / count, begin, begin + length, count};
}

/// Returns the middle `count` of the `resized` pixels that `length` pixels become.
PictureAxis middle_axis(uint32_t length, uint32_t resized, uint32_t count) {
  const uint32_t before = (resized - count) / 2;
  const double scale = double(length) / resized, from = scale * before;
  const double radius = std::max(scale, 1.0);  // reach of the filter around a pixel's centre
  const auto begin = uint32_t(std::max(0.0, std::floor(from + scale / 2 - radius)));
  const double end = std::ceil(from + scale * (count - 0.5) + radius);
  return {from, scale, begin, uint32_t(std::min(double(length), end)), count};
}

}  // namespace

PictureView view_of(const CropBox& box, const ImageShape& shape) {
  return {axis_of(box.left, box.width, shape.width), axis_of(box.top, box.height, shape.height)};
}

PictureView view_of(const ImageShape& picture, const Reshaping& reshaping, const ImageShape& shape,
                    const std::string& name) {
  const PictureSize size =
      size_after_resizing(picture, reshaping).value_or(PictureSize{picture.width, picture.height});
  require_room_for_crop({picture.channels, size.height, size.width}, {shape.width, shape.height},
                        name);
  return {middle_axis(picture.width, size.width, shape.width),
          middle_axis(picture.height, size.height, shape.height)};
}

uint32_t reduction_of(const PictureView& view) {
  const double scale = std::min(view.across.scale, view.down.scale);
  uint32_t reduction = 1;
  while (reduction < 8 && 2 * reduction <= scale) reduction *= 2;
  return reduction;
}

void JpegSamples::write(JpegReader& picture, const PictureView& view, uint32_t channels, bool flip,
                        uint8_t* output) {
  picture.read_part(view.box(), reduction_of(view), channels == 3, part_);
  const CropBox& box = part_.box;
  const Windows across =
      windows_of(view.across, {box.left, box.left + box.width, part_.reduced_by});
  const Windows down = windows_of(view.down, {box.top, box.top + box.height, part_.reduced_by});
  const size_t stride = box.width * part_.values_per_pixel;
  const size_t width = view.across.count, plane = width * view.down.count;
  row_.resize(stride);
  for (size_t y = 0; y < view.down.count; ++y, output += width) {
    add_up_rows(part_.values.data() + down.first[y] * stride, stride, down.of(y), row_.data(),
                stride);
    if (channels == 3) {
      add_up_columns_in_color(row_.data(), across, flip, plane, output);
    } else {
      add_up_columns(row_.data(), across, flip, output);
    }
  }
}

void write_as_reshaped(const Dataset& dataset, std::span<const uint8_t> jpeg,
                       const std::string& name, JpegSamples& samples, uint8_t* output) {
  JpegReader picture({reinterpret_cast<const char*>(jpeg.data()), jpeg.size()}, name);
  const PictureView view = view_of(picture.shape(), dataset.reshaping, dataset.shape, name);
  samples.write(picture, view, dataset.shape.channels, false, output);
}

}  // namespace dlflow::runtime
