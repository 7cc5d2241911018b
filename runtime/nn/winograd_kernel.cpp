#include "runtime/nn/winograd_kernel.h"

#include <algorithm>

#include "base/aligned_floats.h"
#include "runtime/nn/lanes.h"
#include "runtime/nn/winograd_transforms.h"

namespace dlflow::runtime {
namespace {

// Tiles are taken a block at a time, so that what is between the transforms stays in the
// second-level cache.

constexpr int64_t kTaps = 9;
constexpr int64_t kBlockFloats = 128 << 10;
constexpr int64_t kRows = 12;  // of a block, that products are computed for together

DLFLOW_INLINE Lanes at(const float* from) { return load<true>(from, kLanes); }
DLFLOW_INLINE void put(float* to, const Lanes& lanes) { store<true>(to, lanes, kLanes); }

/// What lies between the transforms, of one thread, for the largest convolution so far. Zeros at
/// first, then what the last one left.
float* scratch(int64_t count) {
  thread_local AlignedFloats floats;
  thread_local int64_t size = 0;
  if (size < count) {
    floats = make_aligned_floats(size_t(count));
    size = count;
  }
  return floats.get();
}

/// Where the tiles of a convolution lie, and its transformed numbers.
struct Work {
  const MapGeometry& x;
  const MapGeometry& y;
  int64_t padding_height, padding_width;
  int64_t tiles_in_row, tiles_in_image, tiles;
  int64_t block;   // tiles that are taken at a time
  float* weights;  // (points, channels of x, channels of y); or their gradients
  float* inputs;   // (points, groups of x, block, 16)
  float* outputs;  // (points, block, channels of y)

  Work(const WinogradShape& shape, const MapGeometry& from, const MapGeometry& to, int64_t top,
       int64_t left)
      : x(from),
        y(to),
        padding_height(top),
        padding_width(left),
        tiles_in_row((to.width + 3) / 4),
        tiles_in_image((to.height + 3) / 4 * tiles_in_row),
        tiles(shape.y.images * tiles_in_image) {
    const int64_t channels = x_channels() + y_channels();
    const int64_t fit = kBlockFloats / (kPoints * channels) / kRows * kRows;
    block = std::clamp(fit, kRows, (tiles + kRows - 1) / kRows * kRows);
    const int64_t pairs = x_channels() * y_channels();
    weights = scratch(kPoints * (pairs + block * channels));
    inputs = weights + kPoints * pairs;
    outputs = inputs + kPoints * block * x_channels();
  }

  int64_t x_channels() const { return x.groups * kLanes; }
  int64_t y_channels() const { return y.groups * kLanes; }
  float* weight(int64_t point, int64_t channel) const {
    return weights + (point * x_channels() + channel) * y_channels();
  }
  float* input(int64_t point, int64_t group, int64_t tile) const {
    return inputs + ((point * x.groups + group) * block + tile) * kLanes;
  }
  float* output(int64_t point, int64_t tile) const {
    return outputs + (point * block + tile) * y_channels();
  }
};

struct Tile {
  int64_t image, row, column;  // of its first result
};

DLFLOW_INLINE Tile tile_at(const Work& w, int64_t index) {
  const int64_t in_image = index % w.tiles_in_image;
  return {index / w.tiles_in_image, in_image / w.tiles_in_row * 4, in_image % w.tiles_in_row * 4};
}

/// Size x Size numbers of a map from (top, left) on; zeros outside of it.
template <int Size>
DLFLOW_INLINE void read_square(const MapGeometry& map, const float* from, int64_t top, int64_t left,
                               Lanes* into) {
  const bool inside = top >= 0 && left >= 0 && top + Size <= map.height && left + Size <= map.width;
  for (int64_t row = 0; row < Size; ++row) {
    for (int64_t column = 0; column < Size; ++column) {
      const int64_t r = top + row, c = left + column;
      const bool is_there = inside || (r >= 0 && r < map.height && c >= 0 && c < map.width);
      into[row * Size + column] =
          is_there ? at(from + (r * map.width + c) * map.pixel_stride) : Lanes{};
    }
  }
}

DLFLOW_INLINE void transform_inputs(const Work& w, const float* x, int64_t first, int64_t count) {
  for (int64_t group = 0; group < w.x.groups; ++group) {
    for (int64_t i = 0; i < count; ++i) {
      const Tile tile = tile_at(w, first + i);
      const float* const from = x + tile.image * w.x.image_stride + group * w.x.group_stride;
      Lanes numbers[36];
      read_square<6>(w.x, from, tile.row - w.padding_height, tile.column - w.padding_width,
                     numbers);
      to_points<6>(
          numbers,
          input_transform, [&](int64_t point, const Lanes& lanes) __attribute__((always_inline)) {
            put(w.input(point, group, i), lanes);
          });
    }
  }
}

/// Results of `Rows` tiles for `Groups` groups of channels: as many as registers hold.
template <int Rows, int Groups>
DLFLOW_INLINE void multiply_rows(const Work& w, int64_t point, int64_t tile, int64_t channel) {
  Lanes sums[Rows][Groups] = {};
  for (int64_t group = 0; group < w.x.groups; ++group) {
    const float* const inputs = w.input(point, group, tile);
    const float* const weights = w.weight(point, group * kLanes) + channel;
    for (int64_t c = 0; c < kLanes; ++c) {
      Lanes factors[Groups];
      for (int g = 0; g < Groups; ++g) factors[g] = at(weights + c * w.y_channels() + g * kLanes);
#pragma GCC unroll 12
      for (int row = 0; row < Rows; ++row) {
        const Lanes input = broadcast(inputs[row * kLanes + c]);
        for (int g = 0; g < Groups; ++g) sums[row][g] += input * factors[g];
      }
    }
  }
#pragma GCC unroll 12
  for (int row = 0; row < Rows; ++row) {
    for (int g = 0; g < Groups; ++g) {
      put(w.output(point, tile + row) + channel + g * kLanes, sums[row][g]);
    }
  }
}

/// Calls visit(point, channel of y, whether two groups of 16 begin there).
template <bool Wide, typename Visit>
DLFLOW_INLINE void for_each_strip(const Work& w, Visit visit) {
  for (int64_t point = 0; point < kPoints; ++point) {
    int64_t channel = 0;
    for (; Wide && channel + 2 * kLanes <= w.y_channels(); channel += 2 * kLanes) {
      visit(point, channel, std::true_type());
    }
    for (; channel < w.y_channels(); channel += kLanes) visit(point, channel, std::false_type());
  }
}

/// What lies in `outputs` behind the last tile of the block is computed, too, and not read.
template <bool Wide>
DLFLOW_INLINE void multiply(const Work& w, int64_t count) {
  constexpr int kTogether = Wide ? 12 : 6;
  for_each_strip<Wide>(
      w, [&](int64_t point, int64_t channel, auto pair) __attribute__((always_inline)) {
        for (int64_t tile = 0; tile < count; tile += kTogether) {
          multiply_rows<kTogether, pair() ? 2 : 1>(w, point, tile, channel);
        }
      });
}

DLFLOW_INLINE void transform_outputs(const Work& w, int64_t first, int64_t count, const float* bias,
                                     bool with_relu, float* y) {
  for (int64_t group = 0; group < w.y.groups; ++group) {
    const Lanes shift = bias == nullptr ? Lanes{} : at(bias + group * kLanes);
    for (int64_t i = 0; i < count; ++i) {
      const Tile tile = tile_at(w, first + i);
      float* const to = y + tile.image * w.y.image_stride + group * w.y.group_stride;
      Lanes points[kPoints];
      for (int64_t p = 0; p < kPoints; ++p) points[p] = at(w.output(p, i) + group * kLanes);
      from_points<4>(
          points, output_transform,
          [&](int64_t row, int64_t column, const Lanes& lanes) __attribute__((always_inline)) {
            const int64_t r = tile.row + row, c = tile.column + column;
            if (r >= w.y.height || c >= w.y.width) return;
            const Lanes value = lanes + shift;
            put(to + (r * w.y.width + c) * w.y.pixel_stride, with_relu ? relu(value) : value);
          });
    }
  }
}

template <bool Wide>
DLFLOW_INLINE void convolve(const Work& w, const float* x, const float* bias, bool with_relu,
                            float* y) {
  for (int64_t first = 0; first < w.tiles; first += w.block) {
    const int64_t count = std::min(w.block, w.tiles - first);
    transform_inputs(w, x, first, count);
    multiply<Wide>(w, count);
    transform_outputs(w, first, count, bias, with_relu, y);
  }
}

/// Calls visit(group of y, group of x, the 16 x 16 weights of all taps).
template <typename Weights, typename Visit>
DLFLOW_INLINE void for_each_block(int64_t y_groups, int64_t x_groups, Weights* weights,
                                  Visit visit) {
  for (int64_t to = 0; to < y_groups; ++to) {
    for (int64_t from = 0; from < x_groups; ++from) {
      visit(to, from, weights + (to * x_groups + from) * kTaps * kLanes * kLanes);
    }
  }
}

/// Transforms the weights of one channel of x for a group of y.
DLFLOW_INLINE void put_weights(const Work& w, int64_t channel, int64_t group, const Lanes* taps) {
  to_points<3>(
      taps,
      weight_transform, [&](int64_t point, const Lanes& lanes) __attribute__((always_inline)) {
        put(w.weight(point, channel) + group * kLanes, lanes);
      });
}

DLFLOW_INLINE void transform_weights(const Work& w, const float* weight) {
  for_each_block(
      w.y.groups, w.x.groups,
      weight, [&](int64_t to, int64_t from, const float* block) __attribute__((always_inline)) {
        for (int64_t c = 0; c < kLanes; ++c) {
          Lanes taps[kTaps];
          for (int64_t t = 0; t < kTaps; ++t) taps[t] = at(block + (t * kLanes + c) * kLanes);
          put_weights(w, from * kLanes + c, to, taps);
        }
      });
}

/// Of a convolution from y to x: taps in reverse order, and channels the other way around.
DLFLOW_INLINE void transform_turned_weights(const Work& w, const float* weight) {
  for_each_block(
      w.x.groups, w.y.groups, weight,  // w.x is what the weights give
      [&](int64_t from, int64_t to, const float* block) __attribute__((always_inline)) {
        for (int64_t c = 0; c < kLanes; ++c) {
          Lanes taps[kTaps];
          for (int64_t t = 0; t < kTaps; ++t) {
            const float* const turned = block + (kTaps - 1 - t) * kLanes * kLanes + c;
            for (int64_t i = 0; i < kLanes; ++i) taps[t][i] = turned[i * kLanes];
          }
          put_weights(w, from * kLanes + c, to, taps);
        }
      });
}

/// Transforms dy into `outputs`, and adds up each channel of it.
DLFLOW_INLINE void transform_gradients(const Work& w, const float* dy, int64_t first, int64_t count,
                                       float* dbias) {
  for (int64_t group = 0; group < w.y.groups; ++group) {
    Lanes total = {};
    for (int64_t i = 0; i < count; ++i) {
      const Tile tile = tile_at(w, first + i);
      const float* const from = dy + tile.image * w.y.image_stride + group * w.y.group_stride;
      Lanes numbers[16];
      read_square<4>(w.y, from, tile.row, tile.column, numbers);
      Lanes sum = {};
      for (const Lanes& number : numbers) sum += number;
      total += sum;
      to_points<4>(
          numbers, gradient_transform,
          [&](int64_t point, const Lanes& lanes)
              __attribute__((always_inline)) { put(w.output(point, i) + group * kLanes, lanes); });
    }
    if (dbias != nullptr) put(dbias + group * kLanes, at(dbias + group * kLanes) + total);
  }
}

/// Adds the block's products to `Rows` channels of x, for `Groups` groups of channels of y.
template <int Rows, int Groups>
DLFLOW_INLINE void add_products(const Work& w, int64_t point, int64_t from, int64_t channel,
                                int64_t count) {
  Lanes sums[Rows][Groups] = {};
  const float* const inputs = w.input(point, from / kLanes, 0) + from % kLanes;
  const float* const outputs = w.output(point, 0) + channel;
  for (int64_t tile = 0; tile < count; ++tile) {
    Lanes factors[Groups];
    for (int g = 0; g < Groups; ++g) factors[g] = at(outputs + tile * w.y_channels() + g * kLanes);
#pragma GCC unroll 8
    for (int row = 0; row < Rows; ++row) {
      const Lanes input = broadcast(inputs[tile * kLanes + row]);
      for (int g = 0; g < Groups; ++g) sums[row][g] += input * factors[g];
    }
  }
#pragma GCC unroll 8
  for (int row = 0; row < Rows; ++row) {
    for (int g = 0; g < Groups; ++g) {
      float* const to = w.weight(point, from + row) + channel + g * kLanes;
      put(to, at(to) + sums[row][g]);
    }
  }
}

template <bool Wide>
DLFLOW_INLINE void multiply_gradients(const Work& w, int64_t count) {
  constexpr int kTogether = Wide ? 8 : 4;
  for_each_strip<Wide>(
      w, [&](int64_t point, int64_t channel, auto pair) __attribute__((always_inline)) {
        for (int64_t from = 0; from < w.x_channels(); from += kTogether) {
          add_products<kTogether, pair() ? 2 : 1>(w, point, from, channel, count);
        }
      });
}

DLFLOW_INLINE void write_weight_gradients(const Work& w, float* dweight) {
  for_each_block(
      w.y.groups, w.x.groups,
      dweight, [&](int64_t to, int64_t from, float* block) __attribute__((always_inline)) {
        for (int64_t c = 0; c < kLanes; ++c) {
          Lanes points[kPoints];
          for (int64_t p = 0; p < kPoints; ++p) {
            points[p] = at(w.weight(p, from * kLanes + c) + to * kLanes);
          }
          from_points<3>(
              points, weight_gradient_transform,
              [&](int64_t row, int64_t column, const Lanes& lanes) __attribute__((always_inline)) {
                put(block + ((row * 3 + column) * kLanes + c) * kLanes, lanes);
              });
        }
      });
}

template <bool Wide>
DLFLOW_INLINE void weight_gradients(const Work& w, const float* x, const float* dy, float* dweight,
                                    float* dbias) {
  std::fill_n(w.weights, kPoints * w.x_channels() * w.y_channels(), 0.0f);
  if (dbias != nullptr) std::fill_n(dbias, w.y_channels(), 0.0f);
  for (int64_t first = 0; first < w.tiles; first += w.block) {
    const int64_t count = std::min(w.block, w.tiles - first);
    transform_inputs(w, x, first, count);
    transform_gradients(w, dy, first, count, dbias);
    multiply_gradients<Wide>(w, count);
  }
  write_weight_gradients(w, dweight);
}

// AVX-512 has 32 registers for sums and factors, AVX2 has 16 of half the size.
bool has_wide_registers() {
  static const bool has = __builtin_cpu_supports("avx512f") != 0;
  return has;
}

DLFLOW_VECTOR_CLONES
void forward(const Work& w, const float* x, const float* weight, const float* bias, bool with_relu,
             bool wide, float* y) {
  transform_weights(w, weight);
  wide ? convolve<true>(w, x, bias, with_relu, y) : convolve<false>(w, x, bias, with_relu, y);
}

DLFLOW_VECTOR_CLONES
void backward_data(const Work& w, const float* dy, const float* weight, bool wide, float* dx) {
  transform_turned_weights(w, weight);
  wide ? convolve<true>(w, dy, nullptr, false, dx) : convolve<false>(w, dy, nullptr, false, dx);
}

DLFLOW_VECTOR_CLONES
void backward_weights(const Work& w, const float* x, const float* dy, bool wide, float* dweight,
                      float* dbias) {
  wide ? weight_gradients<true>(w, x, dy, dweight, dbias)
       : weight_gradients<false>(w, x, dy, dweight, dbias);
}

}  // namespace

void winograd_forward(const WinogradShape& s, const float* x, const float* weight,
                      const float* bias, bool relu, float* y) {
  const Work w(s, s.x, s.y, s.padding_height, s.padding_width);
  forward(w, x, weight, bias, relu, has_wide_registers(), y);
}

void winograd_backward_data(const WinogradShape& s, const float* dy, const float* weight,
                            float* dx) {
  const Work w(s, s.y, s.x, 2 - s.padding_height, 2 - s.padding_width);
  backward_data(w, dy, weight, has_wide_registers(), dx);
}

void winograd_backward_weights(const WinogradShape& s, const float* x, const float* dy,
                               float* dweight, float* dbias) {
  const Work w(s, s.x, s.y, s.padding_height, s.padding_width);
  backward_weights(w, x, dy, has_wide_registers(), dweight, dbias);
}

}  // namespace dlflow::runtime
