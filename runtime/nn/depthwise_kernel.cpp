#include "runtime/nn/depthwise_kernel.h"

#include <algorithm>
#include <type_traits>

#include "runtime/nn/lanes.h"

namespace dlflow::runtime {
namespace {

/// One group of channels of one image.
struct Group {
  const DepthwiseShape& shape;
  int64_t index;
  int64_t width;  // number of channels

  DLFLOW_INLINE int64_t x(int64_t image) const { return start(shape.x, image); }
  DLFLOW_INLINE int64_t y(int64_t image) const { return start(shape.y, image); }
  DLFLOW_INLINE int64_t weight() const { return index * shape.taps() * kLanes; }

 private:
  DLFLOW_INLINE int64_t start(const MapGeometry& map, int64_t image) const {
    return image * map.image_stride + index * map.group_stride;
  }
};

/// One side of a convolution: its height or its width.
struct Side {
  int64_t dilation, padding, stride;
  int64_t size, results;  // numbers of x and of y
};

/// Range of results along one side for which `tap` of the kernel falls within the `size` inputs.
struct Reach {
  int64_t first, end;
  int64_t offset;  // result r reads input r * stride + offset
};

DLFLOW_INLINE Reach reach(int64_t tap, const Side& s) {
  const int64_t offset = tap * s.dilation - s.padding;
  const int64_t first = offset < 0 ? (-offset + s.stride - 1) / s.stride : 0;
  const int64_t end = s.size > offset ? (s.size - offset + s.stride - 1) / s.stride : 0;
  return {first, std::clamp(end, first, std::max(first, s.results)), offset};
}

/// Calls visit(place in x, place in y) for each pair in one image that `tap` connects.
template <typename Visit>
DLFLOW_INLINE void for_each_pair(const DepthwiseShape& s, int64_t tap, Visit visit) {
  const Reach rows = reach(tap / s.kernel.width, {s.dilation.height, s.padding.height,
                                                  s.stride.height, s.x.height, s.y.height});
  const Reach columns = reach(tap % s.kernel.width, {s.dilation.width, s.padding.width,
                                                     s.stride.width, s.x.width, s.y.width});
  for (int64_t row = rows.first; row < rows.end; ++row) {
    const int64_t from = (row * s.stride.height + rows.offset) * s.x.width + columns.offset;
    for (int64_t column = columns.first; column < columns.end; ++column) {
      visit((from + column * s.stride.width) * s.x.pixel_stride,
            (row * s.y.width + column) * s.y.pixel_stride);
    }
  }
}

/// Calls visit(group, whether it is whole) for each group of channels.
template <typename Visit>
DLFLOW_INLINE void for_each_group(const DepthwiseShape& shape, Visit visit) {
  for (int64_t i = 0; i < shape.x.groups; ++i) {
    const int64_t width = i + 1 == shape.x.groups ? shape.x.last_group : kLanes;
    const Group group = {shape, i, width};
    width == kLanes ? visit(group, std::true_type()) : visit(group, std::false_type());
  }
}

template <bool Whole>
DLFLOW_INLINE void set(const MapGeometry& map, float* at, const Lanes& value, int64_t width) {
  for (int64_t pixel = 0; pixel < map.pixels(); ++pixel) {
    store<Whole>(at + pixel * map.pixel_stride, value, width);
  }
}

/// *to += weight * *from.
template <bool Whole>
DLFLOW_INLINE void add_product(float* to, const Lanes& weight, const float* from, int64_t width) {
  store<Whole>(to, load<Whole>(to, width) + weight * load<Whole>(from, width), width);
}

template <bool Whole>
DLFLOW_INLINE void forward(const Group& group, const float* x, ConvolutionParameters parameters,
                           bool with_relu, float* y) {
  const DepthwiseShape& s = group.shape;
  const float* const weight = parameters.weight + group.weight();
  set<Whole>(s.y, y,
             parameters.bias == nullptr
                 ? Lanes{}
                 : load<true>(parameters.bias + group.index * kLanes, kLanes),
             group.width);
  for (int64_t tap = 0; tap < s.taps(); ++tap) {
    const Lanes w = load<true>(weight + tap * kLanes, kLanes);
    for_each_pair(
        s, tap, [&](int64_t from, int64_t to) __attribute__((always_inline)) {
          add_product<Whole>(y + to, w, x + from, group.width);
        });
  }
  if (!with_relu) return;
  for (int64_t pixel = 0; pixel < s.y.pixels(); ++pixel) {
    float* const at = y + pixel * s.y.pixel_stride;
    store<Whole>(at, relu(load<Whole>(at, group.width)), group.width);
  }
}

template <bool Whole>
DLFLOW_INLINE void backward_data(const Group& group, const float* dy, const float* weight,
                                 float* dx) {
  const DepthwiseShape& s = group.shape;
  set<Whole>(s.x, dx, Lanes{}, group.width);
  for (int64_t tap = 0; tap < s.taps(); ++tap) {
    const Lanes w = load<true>(weight + tap * kLanes, kLanes);
    for_each_pair(
        s, tap, [&](int64_t to, int64_t from) __attribute__((always_inline)) {
          add_product<Whole>(dx + to, w, dy + from, group.width);
        });
  }
}

template <bool Whole>
DLFLOW_INLINE Lanes gradient_of(const Group& group, int64_t tap, const float* x, const float* dy) {
  DoubleLanes total = {};
  for (int64_t image = 0; image < group.shape.x.images; ++image) {
    const float* const xs = x + group.x(image);
    const float* const dys = dy + group.y(image);
    Lanes sum = {};
    for_each_pair(
        group.shape, tap, [&](int64_t from, int64_t to) __attribute__((always_inline)) {
          sum += load<Whole>(xs + from, group.width) * load<Whole>(dys + to, group.width);
        });
    total += to_double(sum);
  }
  return to_single(total);
}

template <bool Whole>
DLFLOW_INLINE Lanes sum_of_map(const Group& group, const float* dy) {
  const MapGeometry& map = group.shape.y;
  DoubleLanes total = {};
  for (int64_t image = 0; image < map.images; ++image) {
    const float* const at = dy + group.y(image);
    Lanes sum = {};
    for (int64_t pixel = 0; pixel < map.pixels(); ++pixel) {
      sum += load<Whole>(at + pixel * map.pixel_stride, group.width);
    }
    total += to_double(sum);
  }
  return to_single(total);
}

}  // namespace

DLFLOW_VECTOR_CLONES
void depthwise_forward(const DepthwiseShape& shape, const float* x,
                       ConvolutionParameters parameters, bool relu, float* y) {
  for_each_group(
      shape, [&](const Group& group, auto whole) __attribute__((always_inline)) {
        for (int64_t image = 0; image < shape.x.images; ++image) {
          forward<whole()>(group, x + group.x(image), parameters, relu, y + group.y(image));
        }
      });
}

DLFLOW_VECTOR_CLONES
void depthwise_backward_data(const DepthwiseShape& shape, const float* dy, const float* weight,
                             float* dx) {
  for_each_group(
      shape, [&](const Group& group, auto whole) __attribute__((always_inline)) {
        for (int64_t image = 0; image < shape.x.images; ++image) {
          backward_data<whole()>(group, dy + group.y(image), weight + group.weight(),
                                 dx + group.x(image));
        }
      });
}

DLFLOW_VECTOR_CLONES
void depthwise_backward_weights(const DepthwiseShape& shape, const float* x, const float* dy,
                                float* dweight, float* dbias) {
  for_each_group(
      shape, [&](const Group& group, auto whole) __attribute__((always_inline)) {
        for (int64_t tap = 0; tap < shape.taps(); ++tap) {
          const Lanes gradient = gradient_of<whole()>(group, tap, x, dy);
          store<true>(dweight + group.weight() + tap * kLanes, gradient, kLanes);
        }
        if (dbias == nullptr) return;
        store<true>(dbias + group.index * kLanes, sum_of_map<whole()>(group, dy), kLanes);
      });
}

}  // namespace dlflow::runtime
