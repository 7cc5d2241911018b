#include "runtime/nn/winograd_kernel.h"

#include <algorithm>
#include <type_traits>

#include "base/aligned_floats.h"
#include "runtime/nn/lanes.h"
#include "runtime/nn/winograd_transforms.h"

namespace dlflow::runtime {
namespace {

// Tiles are processed in blocks, so that the transformed numbers stay in the L2 cache.

constexpr int64_t kTaps = 9;
constexpr int64_t kBlockFloats = 128 << 10;
constexpr int64_t kRows = 12;       // tiles in a block are a multiple of this
constexpr int64_t kManyTiles = 96;  // least tiles per block if the weights fit in no cache

// R is one register: Lanes with AVX-512, HalfLanes with AVX2.

template <typename R>
DLFLOW_INLINE R at(const float* from) {
  return load<true, R>(from, kWidth<R>);
}

template <typename R>
DLFLOW_INLINE void put(float* to, const R& numbers) {
  store<true>(to, numbers, kWidth<R>);
}

/// A thread's buffer for transformed numbers, as large as its largest convolution so far. It is
/// zero when allocated; later it holds the numbers of the last convolution.
float* scratch(int64_t count) {
  thread_local AlignedFloats floats;
  thread_local int64_t size = 0;
  if (size < count) {
    floats = make_aligned_floats(size_t(count));
    size = count;
  }
  return floats.get();
}

/// The positions of a convolution's tiles, and its transformed numbers.
struct Work {
  const MapGeometry& x;
  const MapGeometry& y;
  int64_t padding_height, padding_width;
  int64_t tiles_in_row, tiles_in_image, tiles;
  int64_t block;  // tiles processed at a time
  // In each array, a point begins one cache line after the end of the previous one: at distances of
  // powers of two, points would compete for the same few cache sets.
  float* weights;  // (points, groups of y, channels of x, 16); or their gradients
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
    const int64_t channels = x_channels() + y_channels(), pairs = x_channels() * y_channels();
    const int64_t fit = kBlockFloats / (kPoints * channels) / kRows * kRows;
    const int64_t least = kPoints * pairs > 4 * kBlockFloats ? kManyTiles : kRows;
    block = std::min(std::max(fit, least), (tiles + kRows - 1) / kRows * kRows);
    weights = scratch(kPoints * (pairs + block * channels + 3 * kLanes));
    inputs = weights + num_weights();
    outputs = inputs + kPoints * (block * x_channels() + kLanes);
  }

  int64_t x_channels() const { return x.groups * kLanes; }
  int64_t y_channels() const { return y.groups * kLanes; }
  int64_t num_weights() const { return kPoints * (x_channels() * y_channels() + kLanes); }
  float* weight(int64_t point, int64_t from, int64_t to) const {
    const int64_t group = to / kLanes;
    return weights + ((point * y.groups + group) * x_channels() + from + point) * kLanes +
           to % kLanes;
  }
  float* input(int64_t point, int64_t channel, int64_t tile) const {
    const int64_t group = channel / kLanes;
    return inputs + ((point * x.groups + group) * block + tile + point) * kLanes + channel % kLanes;
  }
  float* output(int64_t point, int64_t tile) const {
    return outputs + (point * block + tile) * y_channels() + point * kLanes;
  }
};

/// Tiles that are processed together.
struct TileBlock {
  int64_t first, count;
};

struct Tile {
  int64_t image, row, column;  // of its first result
};

/// Offset of the register that begins at `channel`, a multiple of its width.
DLFLOW_INLINE int64_t place_of(const MapGeometry& map, int64_t image, int64_t channel) {
  return image * map.image_stride + channel / kLanes * map.group_stride + channel % kLanes;
}

DLFLOW_INLINE Tile tile_at(const Work& w, int64_t index) {
  const int64_t in_image = index % w.tiles_in_image;
  return {index / w.tiles_in_image, in_image / w.tiles_in_row * 4, in_image % w.tiles_in_row * 4};
}

/// Reads Size x Size numbers of a map from (top, left) on; zeros outside the map.
template <int Size, typename R>
DLFLOW_INLINE void read_square(const MapGeometry& map, const float* from, int64_t top, int64_t left,
                               R* into) {
  const bool inside = top >= 0 && left >= 0 && top + Size <= map.height && left + Size <= map.width;
  for (int64_t row = 0; row < Size; ++row) {
    for (int64_t column = 0; column < Size; ++column) {
      const int64_t r = top + row, c = left + column;
      const bool is_there = inside || (r >= 0 && r < map.height && c >= 0 && c < map.width);
      into[row * Size + column] =
          is_there ? at<R>(from + (r * map.width + c) * map.pixel_stride) : R{};
    }
  }
}

template <typename R>
DLFLOW_INLINE void transform_inputs(const Work& w, TileBlock block, const float* x) {
  for (int64_t channel = 0; channel < w.x_channels(); channel += kWidth<R>) {
    for (int64_t i = 0; i < block.count; ++i) {
      const Tile tile = tile_at(w, block.first + i);
      R numbers[36];
      read_square<6>(w.x, x + place_of(w.x, tile.image, channel), tile.row - w.padding_height,
                     tile.column - w.padding_width, numbers);
      to_points<6>(
          numbers,
          input_transform<R>, [&](int64_t point, const R& given) __attribute__((always_inline)) {
            put(w.input(point, channel, i), given);
          });
    }
  }
}

/// Computes `Rows` tiles for `Columns` registers of channels: as many as fit in registers.
template <typename R, int Rows, int Columns>
DLFLOW_INLINE void multiply_rows(const Work& w, int64_t point, int64_t tile, int64_t channel) {
  R sums[Rows][Columns] = {};
  for (int64_t group = 0; group < w.x_channels(); group += kLanes) {
    const float* const inputs = w.input(point, group, tile);
    const float* weights[Columns];
    for (int n = 0; n < Columns; ++n) weights[n] = w.weight(point, group, channel + n * kWidth<R>);
    for (int64_t c = 0; c < kLanes; ++c) {
      R factors[Columns];
      for (int n = 0; n < Columns; ++n) factors[n] = at<R>(weights[n] + c * kLanes);
#pragma GCC unroll 12
      for (int row = 0; row < Rows; ++row) {
        const R input = broadcast<R>(inputs[row * kLanes + c]);
        for (int n = 0; n < Columns; ++n) sums[row][n] += input * factors[n];
      }
    }
  }
#pragma GCC unroll 12
  for (int row = 0; row < Rows; ++row) {
    for (int n = 0; n < Columns; ++n) {
      put(w.output(point, tile + row) + channel + n * kWidth<R>, sums[row][n]);
    }
  }
}

/// Calls visit(point, channel of y, whether two registers of channels begin there).
template <typename R, typename Visit>
DLFLOW_INLINE void for_each_strip(const Work& w, Visit visit) {
  for (int64_t point = 0; point < kPoints; ++point) {
    int64_t channel = 0;
    for (; channel + 2 * kWidth<R> <= w.y_channels(); channel += 2 * kWidth<R>) {
      visit(point, channel, std::true_type());
    }
    for (; channel < w.y_channels(); channel += kWidth<R>) visit(point, channel, std::false_type());
  }
}

/// AVX-512 has 32 registers for sums and factors, AVX2 has 16.
template <typename R>
constexpr bool kIsWide = kWidth<R> == kLanes;

/// Also computes results beyond the block's last tile, which are not read.
template <typename R>
DLFLOW_INLINE void multiply(const Work& w, int64_t count) {
  constexpr int kTogether = kIsWide<R> ? 12 : 6;
  for_each_strip<R>(
      w, [&](int64_t point, int64_t channel, auto pair) __attribute__((always_inline)) {
        for (int64_t tile = 0; tile < count; tile += kTogether) {
          multiply_rows<R, kTogether, pair() ? 2 : 1>(w, point, tile, channel);
        }
      });
}

template <typename R>
DLFLOW_INLINE void transform_outputs(const Work& w, TileBlock block, const float* bias,
                                     bool with_relu, float* y) {
  for (int64_t channel = 0; channel < w.y_channels(); channel += kWidth<R>) {
    const R shift = bias == nullptr ? R{} : at<R>(bias + channel);
    for (int64_t i = 0; i < block.count; ++i) {
      const Tile tile = tile_at(w, block.first + i);
      float* const to = y + place_of(w.y, tile.image, channel);
      R points[kPoints];
      for (int64_t p = 0; p < kPoints; ++p) points[p] = at<R>(w.output(p, i) + channel);
      from_points<4>(
          points, output_transform<R>,
          [&](int64_t row, int64_t column, const R& given) __attribute__((always_inline)) {
            const int64_t r = tile.row + row, c = tile.column + column;
            if (r >= w.y.height || c >= w.y.width) return;
            const R value = given + shift;
            put(to + (r * w.y.width + c) * w.y.pixel_stride, with_relu ? relu(value) : value);
          });
    }
  }
}

template <typename R>
DLFLOW_INLINE void convolve(const Work& w, const float* x, const float* bias, bool with_relu,
                            float* y) {
  for (int64_t first = 0; first < w.tiles; first += w.block) {
    const TileBlock block = {first, std::min(w.block, w.tiles - first)};
    transform_inputs<R>(w, block, x);
    multiply<R>(w, block.count);
    transform_outputs<R>(w, block, bias, with_relu, y);
  }
}

/// Calls visit(first channel of y, first channel of x, the 16 x 16 weights of all taps).
template <typename Weights, typename Visit>
DLFLOW_INLINE void for_each_block(int64_t y_groups, int64_t x_groups, Weights* weights,
                                  Visit visit) {
  for (int64_t to = 0; to < y_groups; ++to) {
    for (int64_t from = 0; from < x_groups; ++from) {
      visit(to * kLanes, from * kLanes, weights + (to * x_groups + from) * kTaps * kLanes * kLanes);
    }
  }
}

/// Transforms the weights of channel `from` of x for the channels from `to` on of y.
template <typename R>
DLFLOW_INLINE void put_weights(const Work& w, int64_t from, int64_t to, const R* taps) {
  to_points<3>(
      taps, weight_transform<R>, [&](int64_t point, const R& given) __attribute__((always_inline)) {
        put(w.weight(point, from, to), given);
      });
}

template <typename R>
DLFLOW_INLINE void transform_weights(const Work& w, const float* weight) {
  for_each_block(
      w.y.groups, w.x.groups,
      weight, [&](int64_t to, int64_t from, const float* block) __attribute__((always_inline)) {
        for (int64_t c = 0; c < kLanes; ++c) {
          for (int64_t part = 0; part < kLanes; part += kWidth<R>) {
            R taps[kTaps];
            for (int64_t t = 0; t < kTaps; ++t) {
              taps[t] = at<R>(block + (t * kLanes + c) * kLanes + part);
            }
            put_weights(w, from + c, to + part, taps);
          }
        }
      });
}

/// Transforms the weights of a convolution from y to x: taps in reverse order, channels swapped.
template <typename R>
DLFLOW_INLINE void transform_turned_weights(const Work& w, const float* weight) {
  for_each_block(
      w.x.groups, w.y.groups, weight,  // w.x is the weights' output side
      [&](int64_t from, int64_t to, const float* block) __attribute__((always_inline)) {
        for (int64_t c = 0; c < kLanes; ++c) {
          for (int64_t part = 0; part < kLanes; part += kWidth<R>) {
            R taps[kTaps];
            for (int64_t t = 0; t < kTaps; ++t) {
              const float* const turned = block + ((kTaps - 1 - t) * kLanes + part) * kLanes + c;
              for (int64_t i = 0; i < kWidth<R>; ++i) taps[t][i] = turned[i * kLanes];
            }
            put_weights(w, from + c, to + part, taps);
          }
        }
      });
}

/// Transforms dy into `outputs`, and adds each channel's sum to `dbias`.
template <typename R>
DLFLOW_INLINE void transform_gradients(const Work& w, TileBlock block, const float* dy,
                                       float* dbias) {
  for (int64_t channel = 0; channel < w.y_channels(); channel += kWidth<R>) {
    R total = {};
    for (int64_t i = 0; i < block.count; ++i) {
      const Tile tile = tile_at(w, block.first + i);
      R numbers[16];
      read_square<4>(w.y, dy + place_of(w.y, tile.image, channel), tile.row, tile.column, numbers);
      R sum = {};
      for (const R& number : numbers) sum += number;
      total += sum;
      to_points<4>(
          numbers,
          gradient_transform<R>, [&](int64_t point, const R& given) __attribute__((always_inline)) {
            put(w.output(point, i) + channel, given);
          });
    }
    if (dbias != nullptr) put(dbias + channel, at<R>(dbias + channel) + total);
  }
}

/// Adds the block's products to `Rows` channels of x, for `Columns` registers of channels of y.
template <typename R, int Rows, int Columns>
DLFLOW_INLINE void add_products(const Work& w, int64_t point, int64_t from, int64_t channel,
                                int64_t count) {
  R sums[Rows][Columns] = {};
  const float* const inputs = w.input(point, from, 0);
  const float* const outputs = w.output(point, 0) + channel;
  for (int64_t tile = 0; tile < count; ++tile) {
    R factors[Columns];
    for (int n = 0; n < Columns; ++n) {
      factors[n] = at<R>(outputs + tile * w.y_channels() + n * kWidth<R>);
    }
#pragma GCC unroll 8
    for (int row = 0; row < Rows; ++row) {
      const R input = broadcast<R>(inputs[tile * kLanes + row]);
      for (int n = 0; n < Columns; ++n) sums[row][n] += input * factors[n];
    }
  }
#pragma GCC unroll 8
  for (int row = 0; row < Rows; ++row) {
    for (int n = 0; n < Columns; ++n) {
      float* const to = w.weight(point, from + row, channel + n * kWidth<R>);
      put(to, at<R>(to) + sums[row][n]);
    }
  }
}

template <typename R>
DLFLOW_INLINE void multiply_gradients(const Work& w, int64_t count) {
  constexpr int kTogether = kIsWide<R> ? 8 : 4;
  for_each_strip<R>(
      w, [&](int64_t point, int64_t channel, auto pair) __attribute__((always_inline)) {
        for (int64_t from = 0; from < w.x_channels(); from += kTogether) {
          add_products<R, kTogether, pair() ? 2 : 1>(w, point, from, channel, count);
        }
      });
}

template <typename R>
DLFLOW_INLINE void write_weight_gradients(const Work& w, float* dweight) {
  for_each_block(
      w.y.groups, w.x.groups,
      dweight, [&](int64_t to, int64_t from, float* block) __attribute__((always_inline)) {
        for (int64_t c = 0; c < kLanes; ++c) {
          for (int64_t part = 0; part < kLanes; part += kWidth<R>) {
            R points[kPoints];
            for (int64_t p = 0; p < kPoints; ++p) {
              points[p] = at<R>(w.weight(p, from + c, to + part));
            }
            from_points<3>(
                points, weight_gradient_transform<R>,
                [&](int64_t row, int64_t column, const R& given) __attribute__((always_inline)) {
                  put(block + ((row * 3 + column) * kLanes + c) * kLanes + part, given);
                });
          }
        }
      });
}

template <typename R>
DLFLOW_INLINE void weight_gradients(const Work& w, const float* x, const float* dy, float* dweight,
                                    float* dbias) {
  std::fill_n(w.weights, w.num_weights(), 0.0f);
  if (dbias != nullptr) std::fill_n(dbias, w.y_channels(), 0.0f);
  for (int64_t first = 0; first < w.tiles; first += w.block) {
    const TileBlock block = {first, std::min(w.block, w.tiles - first)};
    transform_inputs<R>(w, block, x);
    transform_gradients<R>(w, block, dy, dbias);
    multiply_gradients<R>(w, block.count);
  }
  write_weight_gradients<R>(w, dweight);
}

/// Calls body(R()), which must be inlined.
template <typename Body>
void run_for(Registers registers, Body body) {
  registers == Registers::Avx512 ? run_for_avx512(body) : run_for_avx2(body);
}

}  // namespace

bool has(Registers registers) { return registers == Registers::Avx2 ? has_avx2() : has_avx512(); }

void winograd_forward(const WinogradShape& s, const float* x, ConvolutionParameters parameters,
                      bool relu, float* y) {
  const Work w(s, s.x, s.y, s.padding_height, s.padding_width);
  run_for(
      s.registers, [=]<typename R>(R) __attribute__((always_inline)) {
        transform_weights<R>(w, parameters.weight);
        convolve<R>(w, x, parameters.bias, relu, y);
      });
}

void winograd_backward_data(const WinogradShape& s, const float* dy, const float* weight,
                            float* dx) {
  const Work w(s, s.y, s.x, 2 - s.padding_height, 2 - s.padding_width);
  run_for(
      s.registers, [=]<typename R>(R) __attribute__((always_inline)) {
        transform_turned_weights<R>(w, weight);
        convolve<R>(w, dy, nullptr, false, dx);
      });
}

void winograd_backward_weights(const WinogradShape& s, const float* x, const float* dy,
                               float* dweight, float* dbias) {
  const Work w(s, s.x, s.y, s.padding_height, s.padding_width);
  run_for(
      s.registers, [=]<typename R>(R) __attribute__((always_inline)) {
        weight_gradients<R>(w, x, dy, dweight, dbias);
      });
}

}  // namespace dlflow::runtime
