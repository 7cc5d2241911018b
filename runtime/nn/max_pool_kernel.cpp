#include <algorithm>
#include <limits>

#include "runtime/nn/kernels.h"
#include "runtime/nn/lanes.h"

namespace dlflow::runtime {
namespace {

constexpr int32_t kNone = 0xFFFF;  // chosen: ReLU made it 0, so no input gets a gradient

/// The part of a window that lies inside the map.
struct Span {
  int64_t first, end;  // of the window's own rows (or columns)
};

DLFLOW_INLINE Span inside(int64_t origin, int64_t kernel, int64_t size) {
  return {std::max<int64_t>(0, -origin), std::min(kernel, size - origin)};
}

/// Calls visit(x's offset, y's offset, dy's row, ...) for each output of one image's group.
template <typename Visit>
DLFLOW_INLINE void for_each_window(const MapGeometry& g, const PoolWindow& w, Visit visit) {
  for (int64_t row = 0; row < w.out_height; ++row) {
    const int64_t top = row * w.stride - w.padding;
    const Span rows = inside(top, w.kernel, g.height);
    for (int64_t column = 0; column < w.out_width; ++column) {
      const int64_t left = column * w.stride - w.padding;
      const Span columns = inside(left, w.kernel, g.width);
      visit((row * w.out_width + column) * g.pixel_stride, top, left, rows, columns);
    }
  }
}

template <bool Whole>
DLFLOW_INLINE void forward_map(const MapGeometry& g, const PoolWindow& w, bool with_relu,
                               int64_t width, const float* x, float* y, uint16_t* chosen) {
  for_each_window(
      g, w,
      [&](int64_t out, int64_t top, int64_t left, Span rows, Span columns)
          __attribute__((always_inline)) {
            Lanes best = broadcast(-std::numeric_limits<float>::infinity());
            IntLanes which = {};
            for (int64_t i = rows.first; i < rows.end; ++i) {
              const float* at = x + ((top + i) * g.width + left) * g.pixel_stride;
              for (int64_t j = columns.first; j < columns.end; ++j) {
                const Lanes v = load<Whole>(at + j * g.pixel_stride, width);
                const IntLanes greater = ~(v <= best);  // also where v is NaN
                best = greater ? v : best;
                which = greater ? IntLanes{} + int32_t(i * w.kernel + j) : which;
              }
            }
            if (with_relu) {
              which = best > 0 ? which : IntLanes{} + kNone;
              best = relu(best);
            }
            store<Whole>(y + out, best, width);
            const ShortLanes narrow = __builtin_convertvector(which, ShortLanes);
            std::memcpy(chosen + out, &narrow, sizeof(uint16_t) * size_t(Whole ? kLanes : width));
          });
}

template <bool Whole>
DLFLOW_INLINE void backward_map(const MapGeometry& g, const PoolWindow& w, int64_t width,
                                const float* dy, const uint16_t* chosen, float* dx) {
  for (int64_t pixel = 0; pixel < g.pixels(); ++pixel) {
    store<Whole>(dx + pixel * g.pixel_stride, Lanes{}, width);
  }
  for_each_window(
      g, w,
      [&](int64_t out, int64_t top, int64_t left, Span rows, Span columns)
          __attribute__((always_inline)) {
            ShortLanes narrow = {};
            std::memcpy(&narrow, chosen + out, sizeof(uint16_t) * size_t(Whole ? kLanes : width));
            const IntLanes which = __builtin_convertvector(narrow, IntLanes);
            const Lanes d = load<Whole>(dy + out, width);
            for (int64_t i = rows.first; i < rows.end; ++i) {
              float* at = dx + ((top + i) * g.width + left) * g.pixel_stride;
              for (int64_t j = columns.first; j < columns.end; ++j) {
                float* to = at + j * g.pixel_stride;
                const Lanes share = which == int32_t(i * w.kernel + j) ? d : Lanes{};
                store<Whole>(to, load<Whole>(to, width) + share, width);
              }
            }
          });
}

/// Where image and group begin in a map of `pixels` with the grouping of `g`.
struct Start {
  int64_t x, y;
};

DLFLOW_INLINE Start start(const MapGeometry& g, const PoolWindow& w, int64_t image, int64_t group) {
  const int64_t out_pixels = w.out_height * w.out_width;
  // Strides are proportional to the number of pixels, but for the group's in nhwc: 16.
  const int64_t image_stride = g.image_stride / g.pixels() * out_pixels;
  const bool blocked = g.group_stride == g.pixels() * kLanes && g.pixel_stride == kLanes;
  const int64_t group_stride = blocked ? out_pixels * kLanes : g.group_stride;
  return {image * g.image_stride + group * g.group_stride,
          image * image_stride + group * group_stride};
}

}  // namespace

DLFLOW_FOR_EACH_CPU
void max_pool_forward(const MapGeometry& geometry, const PoolWindow& window, bool relu,
                      const float* x, float* y, uint16_t* chosen) {
  for (int64_t image = 0; image < geometry.images; ++image) {
    for (int64_t group = 0; group < geometry.groups; ++group) {
      const Start at = start(geometry, window, image, group);
      const int64_t width = group + 1 == geometry.groups ? geometry.last_group : kLanes;
      if (width == kLanes) {
        forward_map<true>(geometry, window, relu, width, x + at.x, y + at.y, chosen + at.y);
      } else {
        forward_map<false>(geometry, window, relu, width, x + at.x, y + at.y, chosen + at.y);
      }
    }
  }
}

DLFLOW_FOR_EACH_CPU
void max_pool_backward(const MapGeometry& geometry, const PoolWindow& window, const float* dy,
                       const uint16_t* chosen, float* dx) {
  for (int64_t image = 0; image < geometry.images; ++image) {
    for (int64_t group = 0; group < geometry.groups; ++group) {
      const Start at = start(geometry, window, image, group);
      const int64_t width = group + 1 == geometry.groups ? geometry.last_group : kLanes;
      if (width == kLanes) {
        backward_map<true>(geometry, window, width, dy + at.y, chosen + at.y, dx + at.x);
      } else {
        backward_map<false>(geometry, window, width, dy + at.y, chosen + at.y, dx + at.x);
      }
    }
  }
}

}  // namespace dlflow::runtime
