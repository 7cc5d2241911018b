#include "runtime/nn/kernels.h"
#include "runtime/nn/lanes.h"

namespace dlflow::runtime {
namespace {

/// What a loop over one group of channels needs.
struct Group {
  const MapGeometry& geometry;
  int64_t index;
  int64_t width;  // channels in it

  DLFLOW_INLINE int64_t start(int64_t image) const {
    return image * geometry.image_stride + index * geometry.group_stride;
  }
};

/// Over the batch.
struct GroupSums {
  DoubleLanes first, second;
};

/// Sums of (x - origin) and its square: within an image in single precision, four at a time to hide
/// the latency of an addition; over images in double.
template <bool Whole>
DLFLOW_INLINE GroupSums sums_around(const Group& group, const float* x, const Lanes& origin) {
  const MapGeometry& g = group.geometry;
  DoubleLanes total = {}, total_square = {};
  for (int64_t image = 0; image < g.images; ++image) {
    const float* at = x + group.start(image);
    Lanes sum[4] = {}, square[4] = {};
    const auto visit = [&](int64_t pixel, int slot) __attribute__((always_inline)) {
      const Lanes v = load<Whole>(at + pixel * g.pixel_stride, group.width) - origin;
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
    total += to_double((sum[0] + sum[1]) + (sum[2] + sum[3]));
    total_square += to_double((square[0] + square[1]) + (square[2] + square[3]));
  }
  return {total, total_square};
}

template <bool Whole>
DLFLOW_INLINE Lanes first_pixel(const Group& group, const float* x) {
  return load<Whole>(x + group.start(0), group.width);
}

struct GroupMoments {
  Lanes mean, variance;
};

template <bool Whole>
DLFLOW_INLINE GroupMoments moments(const Group& group, const float* x) {
  const Lanes origin = first_pixel<Whole>(group, x);
  const GroupSums sums = sums_around<Whole>(group, x, origin);
  const double share = 1.0 / double(group.geometry.images * group.geometry.pixels());
  const DoubleLanes mean = sums.first * share;
  const Lanes variance = to_single(sums.second * share - mean * mean);
  return {to_single(mean + to_double(origin)), relu(variance)};
}

/// Sums of x and its square.
template <bool Whole>
DLFLOW_INLINE GroupSums plain_sums(const Group& group, const float* x) {
  const Lanes pixel = first_pixel<Whole>(group, x);
  const GroupSums around = sums_around<Whole>(group, x, pixel);
  const DoubleLanes origin = to_double(pixel);
  const DoubleLanes shift = origin * double(group.geometry.images * group.geometry.pixels());
  return {around.first + shift, around.second + origin * (2 * around.first + shift)};
}

/// y = x * factor + shift (+ residual), then ReLU.
template <bool Whole>
DLFLOW_INLINE void apply(const Group& group, const float* x, const Lanes& factor,
                         const Lanes& shift, const float* residual, bool with_relu, float* y) {
  const MapGeometry& g = group.geometry;
  for (int64_t image = g.images; image-- > 0;) {  // the last is still in the cache
    const int64_t start = group.start(image);
    for (int64_t pixel = 0; pixel < g.pixels(); ++pixel) {
      const int64_t at = start + pixel * g.pixel_stride;
      Lanes v = load<Whole>(x + at, group.width) * factor + shift;
      if (residual != nullptr) v += load<Whole>(residual + at, group.width);
      store<Whole>(y + at, with_relu ? relu(v) : v, group.width);
    }
  }
}

template <bool Whole>
DLFLOW_INLINE void normalise(const Group& group, const float* x, BatchNormParameters parameters,
                             const GroupMoments& m, const float* residual, bool with_relu,
                             float* y) {
  const int64_t first = group.index * kLanes;
  const Lanes factor =
      load<true>(parameters.weight + first, kLanes) / square_root(m.variance + kBatchNormEpsilon);
  const Lanes shift = load<true>(parameters.bias + first, kLanes) - m.mean * factor;
  apply<Whole>(group, x, factor, shift, residual, with_relu, y);
}

struct BackwardArguments {
  const float* x;
  const float* y;  // or null: no ReLU
  float* dy;
  const float* more_dy;  // or null
  float* dx;
};

template <bool Whole>
DLFLOW_INLINE Lanes finished_dy(const BackwardArguments& a, int64_t at, int64_t width) {
  Lanes d = load<Whole>(a.dy + at, width);
  if (a.more_dy != nullptr) d += load<Whole>(a.more_dy + at, width);
  return a.y == nullptr ? d : pass(d, load<Whole>(a.y + at, width));
}

/// The sums of dy and of dy * (x - mean); leaves the finished dy where it was.
template <bool Whole>
DLFLOW_INLINE GroupSums reduce(const Group& group, const BackwardArguments& a, const Lanes& mean) {
  const MapGeometry& g = group.geometry;
  DoubleLanes total = {}, total_product = {};
  for (int64_t image = 0; image < g.images; ++image) {
    const int64_t start = group.start(image);
    Lanes sum[2] = {}, product[2] = {};
    const auto visit = [&](int64_t pixel, int slot) __attribute__((always_inline)) {
      const int64_t at = start + pixel * g.pixel_stride;
      const Lanes d = finished_dy<Whole>(a, at, group.width);
      store<Whole>(a.dy + at, d, group.width);
      sum[slot] += d;
      product[slot] += d * (load<Whole>(a.x + at, group.width) - mean);
    };
    int64_t pixel = 0;
    for (; pixel + 2 <= g.pixels(); pixel += 2) {
      visit(pixel, 0);
      visit(pixel + 1, 1);
    }
    for (; pixel < g.pixels(); ++pixel) visit(pixel, 0);
    total += to_double(sum[0] + sum[1]);
    total_product += to_double(product[0] + product[1]);
  }
  return {total, total_product};
}

DLFLOW_INLINE Lanes inverse_deviation(const float* variance) {
  return 1 / square_root(load<true>(variance, kLanes) + kBatchNormEpsilon);
}

/// dx = weight / deviation * (dy - mean(dy) - normalised x * mean(dy * normalised x)), from sums
/// over `count` values.
template <bool Whole>
DLFLOW_INLINE void apply_backward(const Group& group, const BackwardArguments& a,
                                  const Lanes& weight, const Lanes& mean, const Lanes& inverse,
                                  const GroupSums& sums, float count) {
  const MapGeometry& g = group.geometry;
  const float share = 1.0f / count;
  const Lanes factor = weight * inverse;
  const Lanes slope = to_single(sums.second) * inverse * share * inverse;
  const Lanes constant = mean * slope - to_single(sums.first) * share;
  for (int64_t image = g.images; image-- > 0;) {  // the last is still in the cache
    const int64_t start = group.start(image);
    for (int64_t pixel = 0; pixel < g.pixels(); ++pixel) {
      const int64_t at = start + pixel * g.pixel_stride;
      const Lanes d = load<Whole>(a.dy + at, group.width);
      const Lanes x = load<Whole>(a.x + at, group.width);
      store<Whole>(a.dx + at, factor * ((d - x * slope) + constant), group.width);
    }
  }
}

template <bool Whole>
DLFLOW_INLINE void backward_group(const Group& group, const BackwardArguments& a,
                                  const float* weight, const float* mean, const float* variance,
                                  float* weight_gradient, float* bias_gradient) {
  const int64_t first = group.index * kLanes;
  const Lanes center = load<true>(mean + first, kLanes);
  const Lanes inverse = inverse_deviation(variance + first);
  const GroupSums sums = reduce<Whole>(group, a, center);
  store<true>(weight_gradient + first, to_single(sums.second) * inverse, kLanes);
  store<true>(bias_gradient + first, to_single(sums.first), kLanes);
  apply_backward<Whole>(group, a, load<true>(weight + first, kLanes), center, inverse, sums,
                        float(group.geometry.images * group.geometry.pixels()));
}

template <bool Whole>
DLFLOW_INLINE void backward_sums_of_group(const Group& group, const BackwardArguments& a,
                                          const float* mean, const float* variance,
                                          float* weight_gradient, float* bias_gradient,
                                          double* sums, double* products) {
  const int64_t first = group.index * kLanes;
  const GroupSums s = reduce<Whole>(group, a, load<true>(mean + first, kLanes));
  store<true>(weight_gradient + first, to_single(s.second) * inverse_deviation(variance + first),
              kLanes);
  store<true>(bias_gradient + first, to_single(s.first), kLanes);
  store(sums + first, s.first);
  store(products + first, s.second);
}

template <bool Whole>
DLFLOW_INLINE void apply_backward_to_group(const Group& group, const BackwardArguments& a,
                                           const float* weight, const float* mean,
                                           const float* variance, const double* sums,
                                           const double* products, float count) {
  const int64_t first = group.index * kLanes;
  apply_backward<Whole>(group, a, load<true>(weight + first, kLanes),
                        load<true>(mean + first, kLanes), inverse_deviation(variance + first),
                        {load(sums + first), load(products + first)}, count);
}

DLFLOW_INLINE Group group_of(const MapGeometry& geometry, int64_t index) {
  return {geometry, index, index + 1 == geometry.groups ? geometry.last_group : kLanes};
}

}  // namespace

DLFLOW_VECTOR_CLONES
void batch_norm_forward(const MapGeometry& geometry, const float* x, BatchNormParameters parameters,
                        const float* residual, bool relu, float* mean, float* variance, float* y) {
  for (int64_t i = 0; i < geometry.groups; ++i) {
    const Group group = group_of(geometry, i);
    const bool whole = group.width == kLanes;
    const GroupMoments m = whole ? moments<true>(group, x) : moments<false>(group, x);
    store<true>(mean + i * kLanes, m.mean, kLanes);
    store<true>(variance + i * kLanes, m.variance, kLanes);
    if (whole) {
      normalise<true>(group, x, parameters, m, residual, relu, y);
    } else {
      normalise<false>(group, x, parameters, m, residual, relu, y);
    }
  }
}

DLFLOW_VECTOR_CLONES
void batch_norm_infer(const MapGeometry& geometry, const float* x, BatchNormParameters parameters,
                      const float* mean, const float* variance, const float* residual, bool relu,
                      float* y) {
  for (int64_t i = 0; i < geometry.groups; ++i) {
    const Group group = group_of(geometry, i);
    const GroupMoments m = {load<true>(mean + i * kLanes, kLanes),
                            load<true>(variance + i * kLanes, kLanes)};
    if (group.width == kLanes) {
      normalise<true>(group, x, parameters, m, residual, relu, y);
    } else {
      normalise<false>(group, x, parameters, m, residual, relu, y);
    }
  }
}

DLFLOW_VECTOR_CLONES
void batch_norm_backward(const MapGeometry& geometry, const float* x, const float* weight,
                         const float* mean, const float* variance, const float* y, float* dy,
                         const float* more_dy, float* dx, float* weight_gradient,
                         float* bias_gradient) {
  const BackwardArguments a = {x, y, dy, more_dy, dx};
  for (int64_t i = 0; i < geometry.groups; ++i) {
    const Group group = group_of(geometry, i);
    if (group.width == kLanes) {
      backward_group<true>(group, a, weight, mean, variance, weight_gradient, bias_gradient);
    } else {
      backward_group<false>(group, a, weight, mean, variance, weight_gradient, bias_gradient);
    }
  }
}

DLFLOW_VECTOR_CLONES
void batch_norm_sums(const MapGeometry& geometry, const float* x, double* sums, double* squares) {
  for (int64_t i = 0; i < geometry.groups; ++i) {
    const Group group = group_of(geometry, i);
    const GroupSums s =
        group.width == kLanes ? plain_sums<true>(group, x) : plain_sums<false>(group, x);
    store(sums + i * kLanes, s.first);
    store(squares + i * kLanes, s.second);
  }
}

DLFLOW_VECTOR_CLONES
void batch_norm_backward_sums(const MapGeometry& geometry, const float* x, const float* mean,
                              const float* variance, const float* y, float* dy,
                              const float* more_dy, float* weight_gradient, float* bias_gradient,
                              double* sums, double* products) {
  const BackwardArguments a = {x, y, dy, more_dy, nullptr};
  for (int64_t i = 0; i < geometry.groups; ++i) {
    const Group group = group_of(geometry, i);
    if (group.width == kLanes) {
      backward_sums_of_group<true>(group, a, mean, variance, weight_gradient, bias_gradient, sums,
                                   products);
    } else {
      backward_sums_of_group<false>(group, a, mean, variance, weight_gradient, bias_gradient, sums,
                                    products);
    }
  }
}

DLFLOW_VECTOR_CLONES
void batch_norm_backward_apply(const MapGeometry& geometry, const float* x, const float* weight,
                               const float* mean, const float* variance, const double* sums,
                               const double* products, int64_t count, float* dy, float* dx) {
  const BackwardArguments a = {x, nullptr, dy, nullptr, dx};
  for (int64_t i = 0; i < geometry.groups; ++i) {
    const Group group = group_of(geometry, i);
    if (group.width == kLanes) {
      apply_backward_to_group<true>(group, a, weight, mean, variance, sums, products, float(count));
    } else {
      apply_backward_to_group<false>(group, a, weight, mean, variance, sums, products,
                                     float(count));
    }
  }
}

}  // namespace dlflow::runtime
