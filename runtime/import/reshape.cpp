#include "runtime/import/reshape.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "base/error.h"

namespace dlflow::runtime {
namespace {

/// The input of one output pixel along one direction: pixels from `first` on, and their weights.
struct Window {
  size_t first = 0;
  std::vector<float> weights;
};

/// Pixel i covers [i, i + 1). When shrinking, the triangle covers all contributing pixels.
std::vector<Window> windows_of(uint32_t from, uint32_t to) {
  const double scale = double(from) / double(to), width = std::max(scale, 1.0);
  std::vector<Window> windows(to);
  for (uint32_t i = 0; i < to; ++i) {
    const double center = (double(i) + 0.5) * scale;
    const auto first = size_t(std::floor(std::max(0.0, center - width + 0.5)));
    const auto end = std::min(size_t(from), size_t(std::floor(center + width + 0.5)));
    std::vector<double> weights;
    double sum = 0;
    for (size_t k = first; k < end; ++k) {
      weights.push_back(std::max(0.0, 1 - std::abs((double(k) + 0.5 - center) / width)));
      sum += weights.back();
    }
    windows[i].first = first;
    for (const double weight : weights) windows[i].weights.push_back(float(weight / sum));
  }
  return windows;
}

/// Resizes one channel (H, W) to (windows down, windows across), rows first.
void resize_plane(const float* plane, PictureSize size, const std::vector<Window>& across,
                  const std::vector<Window>& down, float* output) {
  std::vector<float> narrow(size_t(size.height) * across.size());
  for (size_t y = 0; y < size.height; ++y) {
    for (size_t x = 0; x < across.size(); ++x) {
      float sum = 0;
      const float* const from = plane + y * size.width + across[x].first;
      for (size_t k = 0; k < across[x].weights.size(); ++k) sum += across[x].weights[k] * from[k];
      narrow[y * across.size() + x] = sum;
    }
  }
  for (size_t y = 0; y < down.size(); ++y) {
    for (size_t x = 0; x < across.size(); ++x) {
      float sum = 0;
      const float* const from = narrow.data() + down[y].first * across.size() + x;
      for (size_t k = 0; k < down[y].weights.size(); ++k) {
        sum += down[y].weights[k] * from[k * across.size()];
      }
      output[y * across.size() + x] = sum;
    }
  }
}

template <typename T>
T rounded(float value) {
  if constexpr (std::is_same_v<T, float>) return value;
  return T(std::clamp(std::lround(value), 0L, 255L));
}

template <typename T>
std::vector<T> resized(const std::vector<T>& values, const ImageShape& from, PictureSize to) {
  const std::vector<Window> across = windows_of(from.width, to.width),
                            down = windows_of(from.height, to.height);
  const size_t plane = size_t(from.height) * from.width, new_plane = size_t(to.height) * to.width;
  std::vector<float> input(plane), output(new_plane);
  std::vector<T> result(from.channels * new_plane);
  for (uint32_t c = 0; c < from.channels; ++c) {
    std::copy_n(values.begin() + std::ptrdiff_t(c * plane), plane, input.begin());
    resize_plane(input.data(), {from.width, from.height}, across, down, output.data());
    std::ranges::transform(output, result.begin() + std::ptrdiff_t(c * new_plane), rounded<T>);
  }
  return result;
}

template <typename T>
std::vector<T> cropped(const std::vector<T>& values, const ImageShape& from, PictureSize to) {
  const size_t left = (from.width - to.width) / 2, top = (from.height - to.height) / 2;
  std::vector<T> result;
  result.reserve(size_t(from.channels) * to.height * to.width);
  for (size_t c = 0; c < from.channels; ++c) {
    for (size_t y = 0; y < to.height; ++y) {
      const auto row =
          values.begin() + std::ptrdiff_t((c * from.height + top + y) * from.width + left);
      result.insert(result.end(), row, row + to.width);
    }
  }
  return result;
}

template <typename Change>
void apply(Picture& picture, PictureSize to, const Change& change) {
  if (picture.is_wide()) {
    picture.floats = change(picture.floats, picture.shape, to);
  } else {
    picture.values = change(picture.values, picture.shape, to);
  }
  picture.shape.width = to.width;
  picture.shape.height = to.height;
}

}  // namespace

PictureSize parse_picture_size(const std::string& text, const std::string& option) {
  PictureSize size;
  const char* const end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, size.width);
  size.height = size.width;
  if (error == std::errc() && at != end && *at == 'x') {
    const auto second = std::from_chars(at + 1, end, size.height);
    at = second.ptr;
    error = second.ec;
  }
  const bool fits = std::min(size.width, size.height) >= 1 &&
                    std::max(size.width, size.height) <= kMaxPictureSide;
  if (error == std::errc() && at == end && fits) return size;
  throw Error(Errc::InvalidInput,
              fmt::format("{}: '{}' is not a size; write 224, or WIDTHxHEIGHT as 320x240, up to {}",
                          option, text, kMaxPictureSide));
}

Reshaping reshaping_in(const std::vector<std::string>& lines) {
  Reshaping reshaping;
  for (const std::string& line : lines) {
    const std::string key = line.substr(0, line.find(' '));
    if (key != "resize" && key != "crop") continue;
    const PictureSize size =
        parse_picture_size(line.substr(std::min(key.size() + 1, line.size())), "--" + key);
    const bool is_side = key == "resize" && line.find('x') == line.npos;
    if (is_side) reshaping.shorter_side = size.width;
    if (!is_side) (key == "crop" ? reshaping.crop : reshaping.size) = size;
  }
  return reshaping;
}

Picture reshape(Picture picture, const Reshaping& reshaping, const std::string& name) {
  if (const auto to = size_after_resizing(picture.shape, reshaping)) {
    require_picture_size({picture.shape.channels, to->height, to->width}, name);
    apply(picture, *to, [](const auto& values, const ImageShape& from, PictureSize size) {
      return resized(values, from, size);
    });
  }
  if (reshaping.crop) {
    const PictureSize to = *reshaping.crop;
    require_room_for_crop(picture.shape, to, name);
    apply(picture, to, [](const auto& values, const ImageShape& from, PictureSize size) {
      return cropped(values, from, size);
    });
  }
  return picture;
}

}  // namespace dlflow::runtime
