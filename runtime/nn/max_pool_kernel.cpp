#include <algorithm>
#include <limits>
#include <type_traits>

#include "runtime/nn/kernels.h"
#include "runtime/nn/lanes.h"

namespace dlflow::runtime {
namespace {

constexpr int32_t kNone = 0xFFFF;  // value of `chosen` where ReLU gave 0: no input gets a gradient

/// The window of one output, clipped to the map: rows and columns [first, end) within the window.
struct CutWindow {
  int64_t out;        // offset of the output
  int64_t top, left;  // of the whole window; may be negative
  int64_t first_row, end_row, first_column, end_column;
};

/// Calls visit(window) for each output of one group of one image. Kernel is the window's size if it
/// is a compile-time constant and no window is clipped or overlaps another, else 0.
template <int64_t Kernel, typename Visit>
DLFLOW_INLINE void for_each_window(const MapGeometry& g, const PoolWindow& w, Visit visit) {
  const int64_t kernel = Kernel > 0 ? Kernel : w.kernel;
  int64_t out = 0;
  for (int64_t row = 0; row < w.out_height; ++row) {
    const int64_t top = row * w.stride - w.padding;
    for (int64_t column = 0; column < w.out_width; ++column, out += g.pixel_stride) {
      const int64_t left = column * w.stride - w.padding;
      if constexpr (Kernel > 0) {
        visit(CutWindow{out, top, left, 0, kernel, 0, kernel});
      } else {
        visit(CutWindow{out, top, left, std::max<int64_t>(0, -top),
                        std::min(kernel, g.height - top), std::max<int64_t>(0, -left),
                        std::min(kernel, g.width - left)});
      }
    }
  }
}

/// Calls visit(offset of the input, its index in the window).
template <int64_t Kernel, typename Visit>
DLFLOW_INLINE void for_each_input(const MapGeometry& g, const PoolWindow& w,
                                  const CutWindow& window, Visit visit) {
  const int64_t kernel = Kernel > 0 ? Kernel : w.kernel;
  const int64_t end_row = Kernel > 0 ? Kernel : window.end_row;
  const int64_t end_column = Kernel > 0 ? Kernel : window.end_column;
  const int64_t start = (window.top * g.width + window.left) * g.pixel_stride;
#pragma GCC unroll 3
  for (int64_t i = Kernel > 0 ? 0 : window.first_row; i < end_row; ++i) {
#pragma GCC unroll 3
    for (int64_t j = Kernel > 0 ? 0 : window.first_column; j < end_column; ++j) {
      visit(start + (i * g.width + j) * g.pixel_stride, int32_t(i * kernel + j));
    }
  }
}

// MaxPooling is passed by value to the loops, so that stores cannot change it.

template <typename R, bool Whole, int64_t Kernel, typename T>
DLFLOW_INLINE void forward_map(const MaxPooling pool, int64_t width, const T* x, T* y,
                               uint16_t* chosen) {
  for_each_window<Kernel>(
      pool.geometry, pool.window, [&](const CutWindow& at) __attribute__((always_inline)) {
        using Ints = typename BitsOf<R>::Ints;
        using Shorts = typename BitsOf<R>::Shorts;
        auto best = broadcast<R>(-std::numeric_limits<float>::infinity());
        Ints which = {};
        for_each_input<Kernel>(
            pool.geometry, pool.window,
            at, [&](int64_t offset, int32_t number) __attribute__((always_inline)) {
              const R v = load<Whole, R>(x + offset, width);
              const Ints greater = ~(v <= best);  // true for NaN as well
              best = select(greater, v, best);
              which = select(greater, Ints{} + number, which);
            });
        if (pool.relu) {
          const Ints positive = best > 0;
          which = select(positive, which, Ints{} + kNone);
          best = relu(best);
        }
        store<Whole>(y + at.out, best, width);
        const auto narrow = __builtin_convertvector(which, Shorts);
        std::memcpy(chosen + at.out, &narrow, sizeof(uint16_t) * size_t(Whole ? kWidth<R> : width));
      });
}

template <typename R, bool Whole, int64_t Kernel, typename T>
DLFLOW_INLINE void backward_map(const MaxPooling pool, int64_t width, const T* dy,
                                const uint16_t* chosen, T* dx) {
  const MapGeometry& g = pool.geometry;
  const bool covers_all = Kernel > 0 && g.height == pool.window.out_height * Kernel &&
                          g.width == pool.window.out_width * Kernel;
  for (int64_t pixel = 0; !covers_all && pixel < g.pixels(); ++pixel) {
    store<Whole>(dx + pixel * g.pixel_stride, R{}, width);
  }
  for_each_window<Kernel>(
      pool.geometry, pool.window, [&](const CutWindow& at) __attribute__((always_inline)) {
        using Ints = typename BitsOf<R>::Ints;
        typename BitsOf<R>::Shorts narrow = {};
        std::memcpy(&narrow, chosen + at.out, sizeof(uint16_t) * size_t(Whole ? kWidth<R> : width));
        const auto which = __builtin_convertvector(narrow, Ints);
        const R d = load<Whole, R>(dy + at.out, width);
        for_each_input<Kernel>(
            pool.geometry, pool.window,
            at, [&](int64_t offset, int32_t number) __attribute__((always_inline)) {
              const Ints here = which == number;
              R sum = select(here, d, R{});
              if constexpr (Kernel == 0) sum += load<Whole, R>(dx + offset, width);
              store<Whole>(dx + offset, sum, width);
            });
      });
}

/// Offsets of an image's group in x and in y.
struct Start {
  int64_t x, y;
};

DLFLOW_INLINE Start start(const MapGeometry& g, const PoolWindow& w, int64_t image, int64_t group) {
  const int64_t out_pixels = w.out_height * w.out_width;
  // Strides are proportional to the number of pixels, except the group stride of nhwc: 16.
  const int64_t image_stride = g.image_stride / g.pixels() * out_pixels;
  const bool blocked = g.group_stride == g.pixels() * kLanes && g.pixel_stride == kLanes;
  const int64_t group_stride = blocked ? out_pixels * kLanes : g.group_stride;
  return {image * g.image_stride + group * g.group_stride,
          image * image_stride + group * group_stride};
}

/// The usual windows, which do not overlap: the compiler can unroll their loops.
bool is_two_by_two(const MapGeometry& g, const PoolWindow& w) {
  return w.kernel == 2 && w.stride == 2 && w.padding == 0 && g.last_group == kLanes;
}

/// Calls visit(start, channels, whether the group is whole, Kernel of for_each_window) for each
/// group of each image; the last two are compile-time constants.
template <typename Visit>
DLFLOW_INLINE void for_each_map(const MapGeometry& g, const PoolWindow& w, Visit visit) {
  using Any = std::integral_constant<int64_t, 0>;
  using Two = std::integral_constant<int64_t, 2>;
  const bool usual = is_two_by_two(g, w);
  for (int64_t image = 0; image < g.images; ++image) {
    for (int64_t group = 0; group < g.groups; ++group) {
      const Start at = start(g, w, image, group);
      const int64_t width = group + 1 == g.groups ? g.last_group : kLanes;
      if (usual) {
        visit(at, width, std::true_type(), Two());
      } else if (width == kLanes) {
        visit(at, width, std::true_type(), Any());
      } else {
        visit(at, width, std::false_type(), Any());
      }
    }
  }
}

/// Calls visit(first channel, channels) for each register's share of a group of `width` channels.
template <typename R, typename Visit>
DLFLOW_INLINE void for_each_register(int64_t width, Visit visit) {
  for (int64_t first = 0; first < width; first += kWidth<R>) {
    visit(first, std::min(width - first, kWidth<R>));
  }
}

template <typename R, typename T>
DLFLOW_INLINE void forward_as(const MaxPooling& pool, const T* x, T* y, uint16_t* chosen) {
  for_each_map(
      pool.geometry, pool.window,
      [&](Start at, int64_t width, auto whole, auto kernel) __attribute__((always_inline)) {
        for_each_register<R>(
            width, [&](int64_t first, int64_t count) __attribute__((always_inline)) {
              forward_map<R, whole(), kernel()>(pool, count, x + at.x + first, y + at.y + first,
                                                chosen + at.y + first);
            });
      });
}

template <typename R, typename T>
DLFLOW_INLINE void backward_as(const MaxPooling& pool, const T* dy, const uint16_t* chosen, T* dx) {
  for_each_map(
      pool.geometry, pool.window,
      [&](Start at, int64_t width, auto whole, auto kernel) __attribute__((always_inline)) {
        for_each_register<R>(
            width, [&](int64_t first, int64_t count) __attribute__((always_inline)) {
              backward_map<R, whole(), kernel()>(pool, count, dy + at.y + first,
                                                 chosen + at.y + first, dx + at.x + first);
            });
      });
}

template <typename R>
DLFLOW_INLINE void forward(const MaxPooling& pool, Numbers x, Numbers y, uint16_t* chosen) {
  x.is_bf16 ? forward_as<R>(pool, x.as<BFloat16>(), y.as<BFloat16>(), chosen)
            : forward_as<R>(pool, x.as<float>(), y.as<float>(), chosen);
}

template <typename R>
DLFLOW_INLINE void backward(const MaxPooling& pool, Numbers dy, const uint16_t* chosen,
                            Numbers dx) {
  dy.is_bf16 ? backward_as<R>(pool, dy.as<BFloat16>(), chosen, dx.as<BFloat16>())
             : backward_as<R>(pool, dy.as<float>(), chosen, dx.as<float>());
}

}  // namespace

void max_pool_forward(const MaxPooling& pooling, Numbers x, Numbers y, uint16_t* chosen) {
  run_for_this_cpu([=]<typename R>(R)
                       __attribute__((always_inline)) { forward<R>(pooling, x, y, chosen); });
}

void max_pool_backward(const MaxPooling& pooling, Numbers dy, const uint16_t* chosen, Numbers dx) {
  run_for_this_cpu([=]<typename R>(R)
                       __attribute__((always_inline)) { backward<R>(pooling, dy, chosen, dx); });
}

}  // namespace dlflow::runtime
