#include "runtime/nn/map_kernels.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "runtime/nn/lanes.h"

namespace dlflow::runtime {
namespace {

/// Calls visit(offset of the first pixel, first channel, channels, whether there are 16) for each
/// group of one image.
template <typename Visit>
DLFLOW_INLINE void for_each_group(const MapGeometry& g, int64_t image, Visit visit) {
  const int64_t start = image * g.image_stride;
  for (int64_t group = 0; group < g.groups; ++group) {
    const int64_t width = group + 1 < g.groups ? kLanes : g.last_group;
    const int64_t at = start + group * g.group_stride;
    if (width == kLanes) {
      visit(at, group * kLanes, width, std::true_type());
    } else {
      visit(at, group * kLanes, width, std::false_type());
    }
  }
}

/// One double per channel, including the padding of the last group.
std::vector<double> channel_doubles(const MapGeometry& g) {
  return std::vector<double>(size_t(g.groups * kLanes));
}

std::vector<float> channel_floats(const MapGeometry& g) {
  return std::vector<float>(size_t(g.groups * kLanes));
}

/// Adds `term(pixel's offset)` over all pixels: runs of 64 in single precision, the runs in double.
template <typename Term>
DLFLOW_INLINE void add_pixels(const MapGeometry& g, int64_t at, double* sums, Term term) {
  constexpr int64_t kRun = 64;
  DoubleLanes all = load(sums);
  for (int64_t first = 0; first < g.pixels(); first += kRun) {
    Lanes sum = {};
    const int64_t end = std::min(first + kRun, g.pixels());
    for (int64_t pixel = first; pixel < end; ++pixel) sum += term(at + pixel * g.pixel_stride);
    all += to_double(sum);
  }
  store(sums, all);
}

/// The coefficients of one image, per channel: y = a * first + b * second + shift.
struct Affine {
  std::vector<float> first, second, shift;
};

/// One image of maps.
struct ImageMap {
  const MapGeometry& maps;
  int64_t image;
};

struct GroupSums {
  std::vector<double> sums, products;
};

template <typename T>
DLFLOW_INLINE void sums_of_image(const ImageMap& map, const T* x, double* sums) {
  for_each_group(
      map.maps, map.image,
      [&](int64_t at, int64_t channel, int64_t width, auto whole) __attribute__((always_inline)) {
        add_pixels(
            map.maps, at, sums + channel, [&](int64_t i) __attribute__((always_inline)) {
              return load<whole()>(x + i, width);
            });
      });
}

template <typename T>
DLFLOW_INLINE void squares_of_image(const ImageMap& map, const T* x, const float* means,
                                    double* sums) {
  for_each_group(
      map.maps, map.image,
      [&](int64_t at, int64_t channel, int64_t width, auto whole) __attribute__((always_inline)) {
        const Lanes mean = load<true>(means + channel, kLanes);
        add_pixels(
            map.maps, at, sums + channel, [&](int64_t i) __attribute__((always_inline)) {
              const Lanes d = load<whole()>(x + i, width) - mean;
              return d * d;
            });
      });
}

/// Sums of dy and dy * (x - mean).
template <typename T>
DLFLOW_INLINE void products_of_image(const ImageMap& map, const T* x, const T* dy,
                                     const float* means, GroupSums& s) {
  double *const sums = s.sums.data(), *const products = s.products.data();
  for_each_group(
      map.maps, map.image,
      [&](int64_t at, int64_t channel, int64_t width, auto whole) __attribute__((always_inline)) {
        const Lanes mean = load<true>(means + channel, kLanes);
        add_pixels(
            map.maps, at, sums + channel, [&](int64_t i) __attribute__((always_inline)) {
              return load<whole()>(dy + i, width);
            });
        add_pixels(
            map.maps, at, products + channel, [&](int64_t i) __attribute__((always_inline)) {
              return load<whole()>(dy + i, width) * (load<whole()>(x + i, width) - mean);
            });
      });
}

/// y = a * first + b * second + shift for each number; `second` may be null.
template <typename T>
DLFLOW_INLINE void combine_image_as(const ImageMap& map, const Affine& c, const T* a, const T* b,
                                    T* y) {
  const MapGeometry& g = map.maps;
  for_each_group(
      map.maps, map.image,
      [&](int64_t at, int64_t channel, int64_t width, auto whole) __attribute__((always_inline)) {
        const Lanes first = load<true>(c.first.data() + channel, kLanes);
        const Lanes second = load<true>(c.second.data() + channel, kLanes);
        const Lanes shift = load<true>(c.shift.data() + channel, kLanes);
        for (int64_t pixel = 0; pixel < g.pixels(); ++pixel) {
          const int64_t i = at + pixel * g.pixel_stride;
          Lanes v = load<whole()>(a + i, width) * first + shift;
          if (b != nullptr) v += load<whole()>(b + i, width) * second;
          store<whole()>(y + i, v, width);
        }
      });
}

// The passes over one image, dispatched by the type of its numbers.

DLFLOW_VECTOR_CLONES
void sum_image(ImageMap map, Numbers x, double* sums) {
  x.is_bf16 ? sums_of_image(map, x.as<BFloat16>(), sums) : sums_of_image(map, x.as<float>(), sums);
}

DLFLOW_VECTOR_CLONES
void square_image(ImageMap map, Numbers x, const float* means, double* sums) {
  x.is_bf16 ? squares_of_image(map, x.as<BFloat16>(), means, sums)
            : squares_of_image(map, x.as<float>(), means, sums);
}

DLFLOW_VECTOR_CLONES
void multiply_image(ImageMap map, Numbers x, Numbers dy, const float* means, GroupSums& s) {
  x.is_bf16 ? products_of_image(map, x.as<BFloat16>(), dy.as<BFloat16>(), means, s)
            : products_of_image(map, x.as<float>(), dy.as<float>(), means, s);
}

DLFLOW_VECTOR_CLONES
void combine_image(ImageMap map, const Affine& c, Numbers a, Numbers b, Numbers y) {
  a.is_bf16 ? combine_image_as(map, c, a.as<BFloat16>(), b.as<BFloat16>(), y.as<BFloat16>())
            : combine_image_as(map, c, a.as<float>(), b.as<float>(), y.as<float>());
}

Affine affine(const MapGeometry& g) {
  return {channel_floats(g), channel_floats(g), channel_floats(g)};
}

/// Offset of a channel's first number in one image.
int64_t start_of(const MapGeometry& g, int64_t image, int64_t channel) {
  return image * g.image_stride + channel / kLanes * g.group_stride + channel % kLanes;
}

/// Number of channels from `channel` on that are adjacent in memory.
int64_t neighbours(const MapGeometry& g, int64_t channel, int64_t at_most) {
  return g.group_stride == kLanes ? at_most : std::min(at_most, kLanes - channel % kLanes);
}

template <typename T>
void copy_as(const ChannelRange& from, const ChannelRange& to, int64_t channels) {
  const MapGeometry &a = from.geometry, &b = to.geometry;
  for (int64_t image = 0; image < a.images; ++image) {
    for (int64_t done = 0; done < channels;) {
      const int64_t left = neighbours(a, from.first + done, channels - done);
      const int64_t run = neighbours(b, to.first + done, left);
      const T* source = from.map.as<T>() + start_of(a, image, from.first + done);
      T* target = to.map.as<T>() + start_of(b, image, to.first + done);
      const bool dense = a.pixel_stride == run && b.pixel_stride == run;
      const int64_t pixels = dense ? 1 : a.pixels();
      const auto bytes = size_t(dense ? run * a.pixels() : run) * sizeof(T);
      for (int64_t p = 0; p < pixels; ++p) {
        std::memcpy(target + p * b.pixel_stride, source + p * a.pixel_stride, bytes);
      }
      done += run;
    }
  }
}

/// Rows or columns [first, end) of x under row or column i of y.
struct Interval {
  int64_t first, end;
};
DLFLOW_INLINE Interval adaptive(int64_t i, int64_t in, int64_t out) {
  return {i * in / out, ((i + 1) * in + out - 1) / out};
}

/// Calls visit(offset of y's pixel in its group, rows and columns of x).
template <typename Visit>
DLFLOW_INLINE void for_each_rectangle(const MapGeometry& from, const MapGeometry& to, Visit visit) {
  for (int64_t i = 0; i < to.height; ++i) {
    for (int64_t j = 0; j < to.width; ++j) {
      visit((i * to.width + j) * to.pixel_stride, adaptive(i, from.height, to.height),
            adaptive(j, from.width, to.width));
    }
  }
}

/// Calls visit(offset of x's pixel in its group) for all pixels of a rectangle.
template <typename Visit>
DLFLOW_INLINE void for_each_pixel(const MapGeometry& g, Interval rows, Interval columns,
                                  Visit visit) {
  for (int64_t i = rows.first; i < rows.end; ++i) {
    for (int64_t j = columns.first; j < columns.end; ++j) {
      visit((i * g.width + j) * g.pixel_stride);
    }
  }
}

DLFLOW_INLINE float share_of(Interval rows, Interval columns) {
  return 1 / float((rows.end - rows.first) * (columns.end - columns.first));
}

template <typename T>
DLFLOW_INLINE void adaptive_forward_as(const MapGeometry& from, const MapGeometry& to, const T* x,
                                       T* y) {
  for (int64_t image = 0; image < from.images; ++image) {
    for_each_group(
        from, image,
        [&](int64_t at, int64_t channel, int64_t width, auto whole) __attribute__((always_inline)) {
          const int64_t out = image * to.image_stride + channel / kLanes * to.group_stride;
          for_each_rectangle(
              from, to,
              [&](int64_t pixel, Interval rows, Interval columns) __attribute__((always_inline)) {
                Lanes sum = {};
                for_each_pixel(
                    from, rows, columns, [&](int64_t i) __attribute__((always_inline)) {
                      sum += load<whole()>(x + at + i, width);
                    });
                store<whole()>(y + out + pixel, sum * share_of(rows, columns), width);
              });
        });
  }
}

template <typename T>
DLFLOW_INLINE void clear_group(const MapGeometry& g, T* group, int64_t width) {
  for (int64_t pixel = 0; pixel < g.pixels(); ++pixel) {
    store<false>(group + pixel * g.pixel_stride, Lanes{}, width);
  }
}

template <typename T>
DLFLOW_INLINE void adaptive_backward_as(const MapGeometry& from, const MapGeometry& to, const T* dy,
                                        T* dx) {
  for (int64_t image = 0; image < from.images; ++image) {
    for_each_group(
        from, image,
        [&](int64_t at, int64_t channel, int64_t width, auto whole) __attribute__((always_inline)) {
          const int64_t out = image * to.image_stride + channel / kLanes * to.group_stride;
          clear_group(from, dx + at, width);
          for_each_rectangle(
              from, to,
              [&](int64_t pixel, Interval rows, Interval columns) __attribute__((always_inline)) {
                const Lanes d = load<whole()>(dy + out + pixel, width) * share_of(rows, columns);
                for_each_pixel(
                    from, rows, columns, [&](int64_t i) __attribute__((always_inline)) {
                      store<whole()>(dx + at + i, load<whole()>(dx + at + i, width) + d, width);
                    });
              });
        });
  }
}

template <typename T>
DLFLOW_INLINE void upsample_as(const MapGeometry& from, int64_t scale, const MapGeometry& to,
                               const T* x, T* y) {
  for (int64_t image = 0; image < from.images; ++image) {
    for_each_group(
        from, image,
        [&](int64_t at, int64_t channel, int64_t width, auto whole) __attribute__((always_inline)) {
          const int64_t out = image * to.image_stride + channel / kLanes * to.group_stride;
          for (int64_t i = 0; i < to.height; ++i) {
            for (int64_t j = 0; j < to.width; ++j) {
              const int64_t source = (i / scale * from.width + j / scale) * from.pixel_stride;
              const Lanes v = load<whole()>(x + at + source, width);
              store<whole()>(y + out + (i * to.width + j) * to.pixel_stride, v, width);
            }
          }
        });
  }
}

template <typename T>
DLFLOW_INLINE void upsample_backward_as(const MapGeometry& from, int64_t scale,
                                        const MapGeometry& to, const T* dy, T* dx) {
  for (int64_t image = 0; image < from.images; ++image) {
    for_each_group(
        from, image,
        [&](int64_t at, int64_t channel, int64_t width, auto whole) __attribute__((always_inline)) {
          const int64_t out = image * to.image_stride + channel / kLanes * to.group_stride;
          for (int64_t i = 0; i < from.height; ++i) {
            for (int64_t j = 0; j < from.width; ++j) {
              Lanes sum = {};
              for_each_pixel(
                  to, {i * scale, (i + 1) * scale},
                  {j * scale, (j + 1) * scale}, [&](int64_t pixel) __attribute__((always_inline)) {
                    sum += load<whole()>(dy + out + pixel, width);
                  });
              store<whole()>(dx + at + (i * from.width + j) * from.pixel_stride, sum, width);
            }
          }
        });
  }
}

template <typename T>
DLFLOW_INLINE void add_bias_as(const MapGeometry& g, T* map, const float* bias) {
  for (int64_t image = 0; image < g.images; ++image) {
    for_each_group(
        g, image,
        [&](int64_t at, int64_t channel, int64_t width, auto whole) __attribute__((always_inline)) {
          const Lanes shift = load<true>(bias + channel, kLanes);
          for (int64_t pixel = 0; pixel < g.pixels(); ++pixel) {
            T* to = map + at + pixel * g.pixel_stride;
            store<whole()>(to, load<whole()>(to, width) + shift, width);
          }
        });
  }
}

/// Calls visit(offset of the map, channel) for each map.
template <typename Visit>
DLFLOW_INLINE void for_each_map(const PlainMaps& shape, Visit visit) {
  for (int64_t map = 0; map < shape.images * shape.channels; ++map) {
    visit(map * shape.pixels, map % shape.channels);
  }
}

template <typename T>
DLFLOW_INLINE void add_plain_bias_as(const PlainMaps& shape, T* maps, const float* bias) {
  for_each_map(
      shape, [&](int64_t at, int64_t channel) __attribute__((always_inline)) {
        for (int64_t i = at; i < at + shape.pixels; i += kLanes) {
          const int64_t width = std::min(kLanes, at + shape.pixels - i);
          store<false>(maps + i, load<false>(maps + i, width) + bias[channel], width);
        }
      });
}

template <typename T>
DLFLOW_INLINE void sum_plain_as(const PlainMaps& shape, const T* maps, double* sums) {
  for_each_map(
      shape, [&](int64_t at, int64_t channel) __attribute__((always_inline)) {
        Lanes sum = {};
        for (int64_t i = at; i < at + shape.pixels; i += kLanes) {
          sum += load<false>(maps + i, std::min(kLanes, at + shape.pixels - i));
        }
        sums[channel] += double(sum_of(sum));
      });
}

DLFLOW_VECTOR_CLONES
void sum_plain(const PlainMaps& shape, Numbers maps, double* sums) {
  maps.is_bf16 ? sum_plain_as(shape, maps.as<BFloat16>(), sums)
               : sum_plain_as(shape, maps.as<float>(), sums);
}

template <typename T>
DLFLOW_INLINE void drop_as(const MapGeometry& g, const DropMask& mask, const T* x, T* y) {
  for (int64_t image = 0; image < g.images; ++image) {
    const uint8_t* own = mask.keeps + image * g.pixels() * mask.channels;
    for_each_group(
        g, image,
        [&](int64_t at, int64_t channel, int64_t width, auto whole) __attribute__((always_inline)) {
          const int64_t real = std::min(width, mask.channels - channel);
          for (int64_t pixel = 0; pixel < g.pixels(); ++pixel) {
            Lanes factors = {};
            const uint8_t* keep = own + pixel * mask.channels + channel;
            for (int64_t i = 0; i < real; ++i) factors[i] = keep[i] != 0 ? mask.factor : 0.0f;
            const int64_t i = at + pixel * g.pixel_stride;
            store<whole()>(y + i, load<whole()>(x + i, width) * factors, width);
          }
        });
  }
}

}  // namespace

void copy_channels(const ChannelRange& from, const ChannelRange& to, int64_t channels) {
  from.map.is_bf16 ? copy_as<BFloat16>(from, to, channels) : copy_as<float>(from, to, channels);
}

void group_norm_forward(const GroupNorm& norm, Numbers x, Numbers y, float* means, float* scales) {
  const MapGeometry& g = norm.geometry;
  const int64_t each = norm.channels / norm.groups;
  const double count = double(each * g.pixels());
  std::vector<float> channel_means = channel_floats(g);
  Affine c = affine(g);
  for (int64_t image = 0; image < g.images; ++image, means += norm.groups, scales += norm.groups) {
    std::vector<double> sums = channel_doubles(g), squares = channel_doubles(g);
    sum_image({g, image}, x, sums.data());
    for (int64_t group = 0; group < norm.groups; ++group) {
      double sum = 0;
      for (int64_t i = 0; i < each; ++i) sum += sums[size_t(group * each + i)];
      means[group] = float(sum / count);
      std::fill_n(channel_means.begin() + group * each, each, means[group]);
    }
    square_image({g, image}, x, channel_means.data(), squares.data());
    for (int64_t group = 0; group < norm.groups; ++group) {
      double square = 0;
      for (int64_t i = 0; i < each; ++i) square += squares[size_t(group * each + i)];
      scales[group] = float(1 / __builtin_sqrt(square / count + double(kNormEpsilon)));
      for (int64_t i = group * each; i < (group + 1) * each; ++i) {
        c.first[size_t(i)] = norm.weight[i] * scales[group];
        c.shift[size_t(i)] = norm.bias[i] - means[group] * c.first[size_t(i)];
      }
    }
    combine_image({g, image}, c, x, Numbers(), y);
  }
}

void group_norm_backward(const GroupNorm& norm, const NormBackward& pass, NormGradients gradients) {
  const MapGeometry& g = norm.geometry;
  const int64_t each = norm.channels / norm.groups;
  const double count = double(each * g.pixels());
  std::vector<double> weight_sums = channel_doubles(g), bias_sums = channel_doubles(g);
  std::vector<float> channel_means = channel_floats(g);
  Affine c = affine(g);
  const float *means = pass.means, *scales = pass.scales;
  for (int64_t image = 0; image < g.images; ++image, means += norm.groups, scales += norm.groups) {
    GroupSums s{channel_doubles(g), channel_doubles(g)};
    for (int64_t i = 0; i < norm.channels; ++i) channel_means[size_t(i)] = means[i / each];
    multiply_image({g, image}, pass.x, pass.dy, channel_means.data(), s);
    for (int64_t group = 0; group < norm.groups; ++group) {
      const double scale = double(scales[group]);
      double sum = 0, product = 0;
      for (int64_t k = group * each; k < (group + 1) * each; ++k) {
        const auto i = size_t(k);
        weight_sums[i] += s.products[i] * scale;
        bias_sums[i] += s.sums[i];
        sum += double(norm.weight[k]) * s.sums[i];
        product += double(norm.weight[k]) * s.products[i];
      }
      const double slope = -scale * scale * scale * product / count;
      const double shift = -scale * sum / count - slope * double(means[group]);
      for (int64_t k = group * each; k < (group + 1) * each; ++k) {
        c.first[size_t(k)] = float(scale * double(norm.weight[k]));
        c.second[size_t(k)] = float(slope);
        c.shift[size_t(k)] = float(shift);
      }
    }
    combine_image({g, image}, c, pass.dy, pass.x, pass.dx);
  }
  for (int64_t i = 0; i < norm.channels; ++i) {
    gradients.weight[i] = float(weight_sums[size_t(i)]);
    gradients.bias[i] = float(bias_sums[size_t(i)]);
  }
}

DLFLOW_VECTOR_CLONES
void adaptive_pool_forward(const MapGeometry& from, const MapGeometry& to, Numbers x, Numbers y) {
  x.is_bf16 ? adaptive_forward_as(from, to, x.as<BFloat16>(), y.as<BFloat16>())
            : adaptive_forward_as(from, to, x.as<float>(), y.as<float>());
}

DLFLOW_VECTOR_CLONES
void adaptive_pool_backward(const MapGeometry& from, const MapGeometry& to, Numbers dy,
                            Numbers dx) {
  dy.is_bf16 ? adaptive_backward_as(from, to, dy.as<BFloat16>(), dx.as<BFloat16>())
             : adaptive_backward_as(from, to, dy.as<float>(), dx.as<float>());
}

DLFLOW_VECTOR_CLONES
void upsample_forward(const MapGeometry& from, int64_t scale, const MapGeometry& to, Numbers x,
                      Numbers y) {
  x.is_bf16 ? upsample_as(from, scale, to, x.as<BFloat16>(), y.as<BFloat16>())
            : upsample_as(from, scale, to, x.as<float>(), y.as<float>());
}

DLFLOW_VECTOR_CLONES
void upsample_backward(const MapGeometry& from, int64_t scale, const MapGeometry& to, Numbers dy,
                       Numbers dx) {
  dy.is_bf16 ? upsample_backward_as(from, scale, to, dy.as<BFloat16>(), dx.as<BFloat16>())
             : upsample_backward_as(from, scale, to, dy.as<float>(), dx.as<float>());
}

DLFLOW_VECTOR_CLONES
void add_bias(const MapGeometry& geometry, Numbers map, const float* bias) {
  map.is_bf16 ? add_bias_as(geometry, map.as<BFloat16>(), bias)
              : add_bias_as(geometry, map.as<float>(), bias);
}

void sum_channels(const MapGeometry& geometry, int64_t channels, Numbers map, float* sums) {
  std::vector<double> all = channel_doubles(geometry);
  for (int64_t image = 0; image < geometry.images; ++image) {
    sum_image({geometry, image}, map, all.data());
  }
  for (int64_t i = 0; i < channels; ++i) sums[i] = float(all[size_t(i)]);
}

DLFLOW_VECTOR_CLONES
void add_bias(const PlainMaps& shape, Numbers maps, const float* bias) {
  maps.is_bf16 ? add_plain_bias_as(shape, maps.as<BFloat16>(), bias)
               : add_plain_bias_as(shape, maps.as<float>(), bias);
}

void sum_channels(const PlainMaps& shape, Numbers maps, float* sums) {
  std::vector<double> all(size_t(shape.channels));
  sum_plain(shape, maps, all.data());
  for (int64_t i = 0; i < shape.channels; ++i) sums[i] = float(all[size_t(i)]);
}

DLFLOW_VECTOR_CLONES
void drop(const MapGeometry& geometry, DropMask mask, Numbers x, Numbers y) {
  x.is_bf16 ? drop_as(geometry, mask, x.as<BFloat16>(), y.as<BFloat16>())
            : drop_as(geometry, mask, x.as<float>(), y.as<float>());
}

}  // namespace dlflow::runtime
