#include <algorithm>

#include "runtime/nn/kernels.h"
#include "runtime/nn/lanes.h"

namespace dlflow::runtime {
namespace {

/// Arguments of a loop over one group of channels.
struct Group {
  const MapGeometry& geometry;
  int64_t index;
  int64_t width;  // number of channels

  DLFLOW_INLINE int64_t start(int64_t image) const {
    return image * geometry.image_stride + index * geometry.group_stride;
  }
  /// Number of channels in one part.
  template <typename R>
  DLFLOW_INLINE int64_t width_of(int part) const {
    return std::clamp<int64_t>(width - part * kWidth<R>, 0, kWidth<R>);
  }
};

/// Two sums over the batch.
struct GroupSums {
  DoubleLanes first, second;
};

/// Sums of one part of a group.
template <typename R>
struct RegisterSums {
  R sum, square;
};

/// Sums over the image that starts at `x`; four accumulators hide the latency of an addition.
template <typename R, bool Whole, typename T>
DLFLOW_INLINE RegisterSums<R> image_sums(const MapGeometry& g, const T* x, int64_t width,
                                         const R& origin) {
  R sum[4] = {}, square[4] = {};
  const auto visit = [&](int64_t pixel, int slot) __attribute__((always_inline)) {
    const R v = load<Whole, R>(x + pixel * g.pixel_stride, width) - origin;
    sum[slot] += v;
    square[slot] += v * v;
  };
  int64_t pixel = 0;
  for (; pixel + 4 <= g.pixels(); pixel += 4) {
    visit(pixel, 0);
    visit(pixel + 1, 1);
    visit(pixel + 2, 2);
    visit(pixel + 3, 3);
  }
  for (; pixel < g.pixels(); ++pixel) visit(pixel, 0);
  return {(sum[0] + sum[1]) + (sum[2] + sum[3]), (square[0] + square[1]) + (square[2] + square[3])};
}

/// Sums of (x - origin) and its square: single precision within an image, double across images.
template <typename R, bool Whole, typename T>
DLFLOW_INLINE GroupSums sums_around(const Group& group, const T* x, const Lanes& origin) {
  const SplitLanes<R> origins(origin);
  DoubleLanes total = {}, total_square = {};
  for (int64_t image = 0; image < group.geometry.images; ++image) {
    const T* at = x + group.start(image);
    SplitLanes<R> sums, squares;
    for (int part = 0; part < kRegisters<R>; ++part) {
      const RegisterSums<R> of_part = image_sums<R, Whole>(
          group.geometry, at + part * kWidth<R>, group.width_of<R>(part), origins.at[part]);
      sums.at[part] = of_part.sum;
      squares.at[part] = of_part.square;
    }
    total += to_double(sums.together());
    total_square += to_double(squares.together());
  }
  return {total, total_square};
}

template <bool Whole, typename T>
DLFLOW_INLINE Lanes first_pixel(const Group& group, const T* x) {
  return load<Whole>(x + group.start(0), group.width);
}

struct GroupMoments {
  Lanes mean, variance;
};

template <typename R, bool Whole, typename T>
DLFLOW_INLINE GroupMoments moments(const Group& group, const T* x) {
  const Lanes origin = first_pixel<Whole>(group, x);
  const GroupSums sums = sums_around<R, Whole>(group, x, origin);
  const double share = 1.0 / double(group.geometry.images * group.geometry.pixels());
  const DoubleLanes mean = sums.first * share;
  const Lanes variance = to_single(sums.second * share - mean * mean);
  return {to_single(mean + to_double(origin)), relu(variance)};
}

/// Sums of x and its square.
template <typename R, bool Whole, typename T>
DLFLOW_INLINE GroupSums plain_sums(const Group& group, const T* x) {
  const Lanes pixel = first_pixel<Whole>(group, x);
  const GroupSums around = sums_around<R, Whole>(group, x, pixel);
  const DoubleLanes origin = to_double(pixel);
  const DoubleLanes shift = origin * double(group.geometry.images * group.geometry.pixels());
  return {around.first + shift, around.second + origin * (2 * around.first + shift)};
}

constexpr float kCap = 6;  // of ReLU6

/// y = x * factor + shift (+ residual), then ReLU.
template <typename R, bool Whole, typename T>
DLFLOW_INLINE void apply(const Group& group, const BatchNormForward& pass, const Lanes& factor,
                         const Lanes& shift) {
  const MapGeometry& g = group.geometry;
  const T *const x = pass.x.as<T>(), *const residual = pass.residual.as<T>();
  T* const y = pass.y.as<T>();
  const SplitLanes<R> factors(factor), shifts(shift);
  for (int64_t image = g.images; image-- > 0;) {  // the last image is still cached
    const int64_t start = group.start(image);
    for (int64_t pixel = 0; pixel < g.pixels(); ++pixel) {
      for (int part = 0; part < kRegisters<R>; ++part) {
        const int64_t at = start + pixel * g.pixel_stride + part * kWidth<R>;
        const int64_t width = group.width_of<R>(part);
        R v = load<Whole, R>(x + at, width) * factors.at[part] + shifts.at[part];
        if (residual != nullptr) v += load<Whole, R>(residual + at, width);
        if (pass.relu) v = relu(v);
        if (pass.capped) v = cap(v, kCap);
        store<Whole>(y + at, v, width);
      }
    }
  }
}

template <typename R, bool Whole, typename T>
DLFLOW_INLINE void normalise(const Group& group, const BatchNormForward& pass,
                             BatchNormParameters parameters, const GroupMoments& m) {
  const int64_t first = group.index * kLanes;
  const Lanes factor =
      load<true>(parameters.weight + first, kLanes) / square_root(m.variance + kBatchNormEpsilon);
  const Lanes shift = load<true>(parameters.bias + first, kLanes) - m.mean * factor;
  apply<R, Whole, T>(group, pass, factor, shift);
}

// BatchNormBackward is passed by value to the loops, so that stores cannot change it.

template <typename R, bool Whole, typename T>
DLFLOW_INLINE R finished_dy(const BatchNormBackward& a, int64_t at, int64_t width) {
  R d = load<Whole, R>(a.dy.as<T>() + at, width);
  if (a.more_dy.data != nullptr) d += load<Whole, R>(a.more_dy.as<T>() + at, width);
  if (a.y.data == nullptr) return d;
  const R y = load<Whole, R>(a.y.as<T>() + at, width);
  d = pass(d, y);
  return a.capped ? pass_below(d, y, kCap) : d;
}

/// Returns the sums of dy and of dy * (x - mean); leaves the finished dy in place.
template <typename R, bool Whole, typename T>
DLFLOW_INLINE GroupSums reduce(const Group& group, const BatchNormBackward a, const Lanes& mean) {
  const MapGeometry& g = group.geometry;
  const SplitLanes<R> means(mean);
  DoubleLanes total = {}, total_product = {};
  for (int64_t image = 0; image < g.images; ++image) {
    const int64_t start = group.start(image);
    SplitLanes<R> sum[2], product[2];
    const auto visit = [&](int64_t pixel, int slot) __attribute__((always_inline)) {
      for (int part = 0; part < kRegisters<R>; ++part) {
        const int64_t at = start + pixel * g.pixel_stride + part * kWidth<R>;
        const int64_t width = group.width_of<R>(part);
        const R d = finished_dy<R, Whole, T>(a, at, width);
        store<Whole>(a.dy.as<T>() + at, d, width);
        sum[slot].at[part] += d;
        product[slot].at[part] += d * (load<Whole, R>(a.x.as<T>() + at, width) - means.at[part]);
      }
    };
    int64_t pixel = 0;
    for (; pixel + 2 <= g.pixels(); pixel += 2) {
      visit(pixel, 0);
      visit(pixel + 1, 1);
    }
    for (; pixel < g.pixels(); ++pixel) visit(pixel, 0);
    total += to_double(sum[0].together() + sum[1].together());
    total_product += to_double(product[0].together() + product[1].together());
  }
  return {total, total_product};
}

DLFLOW_INLINE Lanes inverse_deviation(const float* variance) {
  return 1 / square_root(load<true>(variance, kLanes) + kBatchNormEpsilon);
}

/// Returns the sums of dy and of dy * (x - mean); finishes dy, and writes these images'
/// contribution to the gradients of weight and bias.
template <typename R, bool Whole, typename T>
DLFLOW_INLINE GroupSums finish(const Group& group, const BatchNormBackward& pass,
                               NormGradients gradients) {
  const int64_t first = group.index * kLanes;
  const GroupSums sums = reduce<R, Whole, T>(group, pass, load<true>(pass.mean + first, kLanes));
  const Lanes inverse = inverse_deviation(pass.variance + first);
  store<true>(gradients.weight + first, to_single(sums.second) * inverse, kLanes);
  store<true>(gradients.bias + first, to_single(sums.first), kLanes);
  return sums;
}

/// dx = weight / deviation * (dy - mean(dy) - normalised x * mean(dy * normalised x)), from sums
/// over `count` values.
template <typename R, bool Whole, typename T>
DLFLOW_INLINE void apply_backward(const Group& group, const BatchNormBackward pass,
                                  const GroupSums& sums, int64_t count) {
  const MapGeometry& g = group.geometry;
  const int64_t first = group.index * kLanes;
  const Lanes mean = load<true>(pass.mean + first, kLanes);
  const Lanes inverse = inverse_deviation(pass.variance + first);
  const float share = 1.0f / float(count);
  const Lanes slope = to_single(sums.second) * inverse * share * inverse;
  const SplitLanes<R> factors(load<true>(pass.weight + first, kLanes) * inverse), slopes(slope);
  const SplitLanes<R> constants(mean * slope - to_single(sums.first) * share);
  for (int64_t image = g.images; image-- > 0;) {  // the last image is still cached
    const int64_t start = group.start(image);
    for (int64_t pixel = 0; pixel < g.pixels(); ++pixel) {
      for (int part = 0; part < kRegisters<R>; ++part) {
        const int64_t at = start + pixel * g.pixel_stride + part * kWidth<R>;
        const int64_t width = group.width_of<R>(part);
        const R d = load<Whole, R>(pass.dy.as<T>() + at, width);
        const R x = load<Whole, R>(pass.x.as<T>() + at, width);
        const R inner = (d - x * slopes.at[part]) + constants.at[part];
        store<Whole>(pass.dx.as<T>() + at, factors.at[part] * inner, width);
      }
    }
  }
}

DLFLOW_INLINE Group group_of(const MapGeometry& geometry, int64_t index) {
  return {geometry, index, index + 1 == geometry.groups ? geometry.last_group : kLanes};
}

/// Compile-time parameters: register, whether the group is whole, and the type of the numbers.
template <typename R, bool Whole, typename T>
struct Kind {};

template <typename R, typename Visit>
DLFLOW_INLINE void visit_as(const Group& group, bool is_bf16, Visit visit) {
  const bool whole = group.width == kLanes;
  if (is_bf16) {
    whole ? visit(group, Kind<R, true, BFloat16>()) : visit(group, Kind<R, false, BFloat16>());
  } else {
    whole ? visit(group, Kind<R, true, float>()) : visit(group, Kind<R, false, float>());
  }
}

/// Calls visit(group, Kind) for each group of channels.
template <typename Visit>
void for_each_group(const MapGeometry& geometry, Numbers x, Visit visit) {
  run_for_this_cpu([=]<typename R>(R) __attribute__((always_inline)) {
    for (int64_t i = 0; i < geometry.groups; ++i) {
      visit_as<R>(group_of(geometry, i), x.is_bf16, visit);
    }
  });
}

}  // namespace

void batch_norm_forward(const MapGeometry& geometry, BatchNormForward pass,
                        BatchNormParameters parameters, float* mean, float* variance) {
  for_each_group(
      geometry, pass.x,
      [=]<typename R, bool Whole, typename T>(const Group& group, Kind<R, Whole, T>)
          __attribute__((always_inline)) {
            const int64_t first = group.index * kLanes;
            const GroupMoments m = moments<R, Whole>(group, pass.x.as<T>());
            store<true>(mean + first, m.mean, kLanes);
            store<true>(variance + first, m.variance, kLanes);
            normalise<R, Whole, T>(group, pass, parameters, m);
          });
}

void batch_norm_infer(const MapGeometry& geometry, BatchNormForward pass,
                      BatchNormParameters parameters, const float* mean, const float* variance) {
  for_each_group(
      geometry, pass.x,
      [=]<typename R, bool Whole, typename T>(const Group& group, Kind<R, Whole, T>)
          __attribute__((always_inline)) {
            const int64_t first = group.index * kLanes;
            const GroupMoments m = {load<true>(mean + first, kLanes),
                                    load<true>(variance + first, kLanes)};
            normalise<R, Whole, T>(group, pass, parameters, m);
          });
}

void batch_norm_backward(const MapGeometry& geometry, BatchNormBackward pass,
                         NormGradients gradients) {
  for_each_group(
      geometry, pass.x,
      [=]<typename R, bool Whole, typename T>(const Group& group, Kind<R, Whole, T>)
          __attribute__((always_inline)) {
            apply_backward<R, Whole, T>(group, pass, finish<R, Whole, T>(group, pass, gradients),
                                        geometry.images * geometry.pixels());
          });
}

void batch_norm_sums(const MapGeometry& geometry, Numbers x, double* sums, double* squares) {
  for_each_group(
      geometry, x,
      [=]<typename R, bool Whole, typename T>(const Group& group, Kind<R, Whole, T>)
          __attribute__((always_inline)) {
            const GroupSums s = plain_sums<R, Whole>(group, x.as<T>());
            store(sums + group.index * kLanes, s.first);
            store(squares + group.index * kLanes, s.second);
          });
}

void batch_norm_backward_sums(const MapGeometry& geometry, BatchNormBackward pass,
                              NormGradients gradients, double* sums, double* products) {
  for_each_group(
      geometry, pass.x,
      [=]<typename R, bool Whole, typename T>(const Group& group, Kind<R, Whole, T>)
          __attribute__((always_inline)) {
            const GroupSums s = finish<R, Whole, T>(group, pass, gradients);
            store(sums + group.index * kLanes, s.first);
            store(products + group.index * kLanes, s.second);
          });
}

void batch_norm_backward_apply(const MapGeometry& geometry, BatchNormBackward pass,
                               const double* sums, const double* products, int64_t count) {
  for_each_group(
      geometry, pass.x,
      [=]<typename R, bool Whole, typename T>(const Group& group, Kind<R, Whole, T>)
          __attribute__((always_inline)) {
            const int64_t first = group.index * kLanes;
            const GroupSums s = {load(sums + first), load(products + first)};
            apply_backward<R, Whole, T>(group, pass, s, count);
          });
}

}  // namespace dlflow::runtime
