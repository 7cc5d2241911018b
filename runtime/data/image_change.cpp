#include "runtime/data/image_change.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <type_traits>
#include <utility>

#include "base/error.h"

namespace dlflow::runtime {
namespace {

template <typename T>
T to_pixel(float value) {
  if constexpr (std::is_same_v<T, uint8_t>) {
    return uint8_t(std::clamp(std::floor(value + 0.5f), 0.0f, 255.0f));
  } else {
    return value;
  }
}

/// Shifts and flips one row of `width` pixels; pixels from outside of the input become `outside`.
template <typename T, typename U>
void shift_row(const T* input, U* output, int width, const ImageChange& change, U outside) {
  for (int x = 0; x < width; ++x) {
    const int source = x + change.shift_x;
    const bool inside = source >= 0 && source < width;
    output[x] = inside ? U(input[change.flip ? width - 1 - source : source]) : outside;
  }
}

template <typename T, typename U>
void shift(const ImageChange& change, const ImageShape& shape, const T* input, U* output,
           U outside) {
  const int height = int(shape.height), width = int(shape.width);
  for (uint32_t channel = 0; channel < shape.channels; ++channel) {
    for (int y = 0; y < height; ++y, output += width) {
      const int source = y + change.shift_y;
      if (source < 0 || source >= height) {
        std::fill_n(output, width, outside);
      } else {
        shift_row(input + size_t(source) * width, output, width, change, outside);
      }
    }
    input += size_t(height) * width;
  }
}

/// A position between two rows or columns of the input, to interpolate an output pixel from.
struct Interpolation {
  int first = 0, second = 0;
  float share = 0;  ///< weight of the second
};

/// Pixel centres are at whole numbers. `at` is clamped to `begin` ... `end` - 1.
Interpolation interpolation_at(float at, int begin, int end) {
  const float inside = std::clamp(at, float(begin), float(end - 1));
  const int first = int(inside);  // rounds down, since it is not negative
  return {first, std::min(first + 1, end - 1), inside - float(first)};
}

template <typename T>
float between(const T* plane, int width, const Interpolation& y, const Interpolation& x) {
  const T* const top = plane + size_t(y.first) * width;
  const T* const bottom = plane + size_t(y.second) * width;
  const float upper = float(top[x.first]) * (1 - x.share) + float(top[x.second]) * x.share;
  const float lower = float(bottom[x.first]) * (1 - x.share) + float(bottom[x.second]) * x.share;
  return upper * (1 - y.share) + lower * y.share;
}

/// Maps the output back to the input: undoes the rotation, the mirror, and the crop or the shift.
class Warp {
 public:
  Warp(const ImageChange& change, const ImageShape& shape)
      : change_(change),
        height_(int(shape.height)),
        width_(int(shape.width)),
        box_(change.crop.height > 0 ? change.crop : CropBox{0, 0, shape.height, shape.width}),
        sine_(float(std::sin(double(change.angle) * std::numbers::pi / 180))),
        cosine_(float(std::cos(double(change.angle) * std::numbers::pi / 180))) {}

  /// Whether pixel (y, x) of the output shows the input, and from which position.
  bool find(int y, int x, Interpolation& row, Interpolation& column) const {
    const float middle_y = float(height_ - 1) / 2, middle_x = float(width_ - 1) / 2;
    const float down = float(y) - middle_y, right = float(x) - middle_x;
    const float v = middle_y + cosine_ * down + sine_ * right + float(change_.shift_y);
    float u = middle_x + cosine_ * right - sine_ * down + float(change_.shift_x);
    if (!is_inside(v, height_) || !is_inside(u, width_)) return false;
    if (change_.flip) u = float(width_ - 1) - u;
    row = in_box(v, height_, box_.top, box_.height);
    column = in_box(u, width_, box_.left, box_.width);
    return true;
  }

 private:
  static bool is_inside(float at, int size) { return at >= -0.5f && at <= float(size) - 0.5f; }

  static Interpolation in_box(float at, int size, uint32_t begin, uint32_t length) {
    const float scale = float(length) / float(size);
    return interpolation_at(float(begin) + (at + 0.5f) * scale - 0.5f, int(begin),
                            int(begin + length));
  }

  const ImageChange& change_;
  int height_, width_;
  CropBox box_;
  float sine_, cosine_;
};

template <typename T>
void warp(const ImageChange& change, const ImageShape& shape, const T* input, T* output) {
  const Warp warp(change, shape);
  const int height = int(shape.height), width = int(shape.width);
  const size_t plane = size_t(height) * width;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x, ++output) {
      Interpolation row, column;
      const bool inside = warp.find(y, x, row, column);
      for (uint32_t channel = 0; channel < shape.channels; ++channel) {
        output[channel * plane] =
            inside ? to_pixel<T>(between(input + channel * plane, width, row, column)) : T(0);
      }
    }
  }
}

template <typename T>
void warp_mask(const ImageChange& change, const ImageShape& shape, const T* input, float* output) {
  const Warp warp(change, shape);
  const auto nearest = [](const Interpolation& at) {
    return size_t(at.share < 0.5f ? at.first : at.second);
  };
  for (int y = 0; y < int(shape.height); ++y) {
    for (int x = 0; x < int(shape.width); ++x, ++output) {
      Interpolation row, column;
      *output = warp.find(y, x, row, column)
                    ? float(input[nearest(row) * shape.width + nearest(column)])
                    : float(kNoClass);
    }
  }
}

/// An image of one channel, or of red, green and blue.
template <typename T>
class Colors {
 public:
  Colors(const ImageShape& shape, T* image)
      : image_(image), plane_(size_t(shape.height) * shape.width), channels_(shape.channels) {}

  void change_brightness(float factor) {
    for (size_t i = 0; i < channels_ * plane_; ++i) blend(image_[i], 0, factor);
  }

  void change_contrast(float factor) {
    double sum = 0;
    for (size_t i = 0; i < plane_; ++i) sum += double(grey(i));
    const float mean = float(sum / double(plane_));
    for (size_t i = 0; i < channels_ * plane_; ++i) blend(image_[i], mean, factor);
  }

  void change_saturation(float factor) {
    for (size_t i = 0; i < plane_; ++i) {
      const float target = grey(i);
      for (size_t channel = 0; channel < channels_; ++channel) {
        blend(image_[channel * plane_ + i], target, factor);
      }
    }
  }

 private:
  /// Luma of ITU-R BT.601.
  float grey(size_t i) const {
    if (channels_ == 1) return float(image_[i]);
    return 0.299f * float(image_[i]) + 0.587f * float(image_[plane_ + i]) +
           0.114f * float(image_[2 * plane_ + i]);
  }

  static void blend(T& pixel, float target, float factor) {
    pixel = to_pixel<T>(factor * float(pixel) + (1 - factor) * target);
  }

  T* image_;
  size_t plane_, channels_;
};

template <typename T>
void change_colors(const ImageChange& change, const ImageShape& shape, T* image) {
  Colors<T> colors(shape, image);
  if (change.brightness != 1) colors.change_brightness(change.brightness);
  if (change.contrast == 1 && change.saturation == 1) return;
  DLFLOW_CHECK(shape.channels == 1 || shape.channels == 3);
  if (change.contrast != 1) colors.change_contrast(change.contrast);
  if (change.saturation != 1) colors.change_saturation(change.saturation);
}

bool moves_whole_pixels(const ImageChange& change) {
  return change.crop.height == 0 && change.angle == 0;
}

}  // namespace

template <typename T>
void apply_change(const ImageChange& change, const ImageShape& shape, const T* input, T* output) {
  if (moves_whole_pixels(change)) {
    shift(change, shape, input, output, T(0));
  } else {
    warp(change, shape, input, output);
  }
  change_colors(change, shape, output);
}

template <typename T>
void change_mask(const ImageChange& change, const ImageShape& shape, const T* input,
                 float* output) {
  if (moves_whole_pixels(change)) {
    shift(change, {1, shape.height, shape.width}, input, output, float(kNoClass));
  } else {
    warp_mask(change, shape, input, output);
  }
}

template void apply_change(const ImageChange&, const ImageShape&, const uint8_t*, uint8_t*);
template void apply_change(const ImageChange&, const ImageShape&, const float*, float*);
template void change_mask(const ImageChange&, const ImageShape&, const uint8_t*, float*);
template void change_mask(const ImageChange&, const ImageShape&, const float*, float*);

void cut_out(const Hole& hole, const ImageShape& shape, float* image) {
  const auto range = [&](uint32_t middle, uint32_t size) {
    const int64_t begin = int64_t(middle) - hole.side / 2;
    return std::pair(size_t(std::max<int64_t>(begin, 0)),
                     size_t(std::clamp<int64_t>(begin + hole.side, 0, size)));
  };
  const auto [top, bottom] = range(hole.y, shape.height);
  const auto [left, right] = range(hole.x, shape.width);
  for (size_t channel = 0; channel < shape.channels; ++channel) {
    for (size_t y = top; y < bottom; ++y) {
      float* const row = image + (channel * shape.height + y) * shape.width;
      std::fill(row + left, row + right, 0.0f);
    }
  }
}

}  // namespace dlflow::runtime
