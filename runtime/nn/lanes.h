#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/bfloat16.h"

/// 16 numbers at once, in GCC's and Clang's vector extension: one AVX-512 register, two of AVX2.
/// For functions with DLFLOW_VECTOR_CLONES; what those call must be inlined to be compiled with
/// them.
namespace dlflow::runtime {

using Lanes [[gnu::vector_size(64)]] = float;
using DoubleLanes [[gnu::vector_size(128)]] = double;
using IntLanes [[gnu::vector_size(64)]] = int32_t;
using WordLanes [[gnu::vector_size(64)]] = uint32_t;
using ShortLanes [[gnu::vector_size(32)]] = uint16_t;
constexpr int64_t kLanes = 16;

/// A group of 16 channels is whole, or the last `width` of them.
template <bool Whole>
DLFLOW_INLINE Lanes load(const float* from, int64_t width) {
  Lanes lanes = {};
  std::memcpy(&lanes, from, sizeof(float) * size_t(Whole ? kLanes : width));
  return lanes;
}

template <bool Whole>
DLFLOW_INLINE void store(float* to, const Lanes& lanes, int64_t width) {
  std::memcpy(to, &lanes, sizeof(float) * size_t(Whole ? kLanes : width));
}

template <bool Whole>
DLFLOW_INLINE Lanes load(const BFloat16* from, int64_t width) {
  ShortLanes halves = {};
  std::memcpy(&halves, from, sizeof(BFloat16) * size_t(Whole ? kLanes : width));
  return Lanes(__builtin_convertvector(halves, WordLanes) << 16);
}

/// Rounds as narrow() does.
template <bool Whole>
DLFLOW_INLINE void store(BFloat16* to, const Lanes& lanes, int64_t width) {
  const WordLanes bits = WordLanes(lanes);
  const WordLanes rounded = bits + 0x7fff + ((bits >> 16) & 1);
  const IntLanes is_nan = IntLanes(bits & 0x7fffffff) > 0x7f800000;
  const WordLanes upper = (is_nan ? bits | 0x400000 : rounded) >> 16;
  const ShortLanes halves = __builtin_convertvector(upper, ShortLanes);
  std::memcpy(to, &halves, sizeof(BFloat16) * size_t(Whole ? kLanes : width));
}

DLFLOW_INLINE DoubleLanes load(const double* from) {
  DoubleLanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

DLFLOW_INLINE void store(double* to, const DoubleLanes& lanes) {
  std::memcpy(to, &lanes, sizeof lanes);
}

/// Through an integer: of `value + Lanes{}` GCC 12 makes an addition, since -0 + 0 is 0, and of
/// `value - Lanes{}` masked loads, one per lane, in AVX-512.
DLFLOW_INLINE Lanes broadcast(float value) {
  return Lanes(std::bit_cast<int32_t>(value) + IntLanes{});
}

/// a0 b0 a1 b1 ... of the first eight lanes of each, and of the others.
DLFLOW_INLINE Lanes interleave_lower(const Lanes& a, const Lanes& b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
DLFLOW_INLINE Lanes interleave_upper(const Lanes& a, const Lanes& b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                 31);
}

DLFLOW_INLINE Lanes square_root(const Lanes& lanes) {
  Lanes root;
  for (int i = 0; i < kLanes; ++i) root[i] = __builtin_sqrtf(lanes[i]);
  return root;
}

DLFLOW_INLINE DoubleLanes to_double(const Lanes& lanes) {
  return __builtin_convertvector(lanes, DoubleLanes);
}

DLFLOW_INLINE Lanes to_single(const DoubleLanes& lanes) {
  return __builtin_convertvector(lanes, Lanes);
}

/// `a` where the mask is set, else `b`. A comparison must be stored as a mask before it is used:
/// GCC 12 makes one scalar comparison per lane of `x > y ? a : b`.
template <typename T>
DLFLOW_INLINE T select(const IntLanes& mask, const T& a, const T& b) {
  return mask ? a : b;
}

DLFLOW_INLINE float sum_of(const Lanes& lanes) {
  float sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += lanes[i];
  return sum;
}

/// NaN stays.
DLFLOW_INLINE Lanes cap(const Lanes& lanes, float most) {
  const IntLanes greater = lanes > most;
  return select(greater, broadcast(most), lanes);
}

/// `lanes` where `value` is below `most`, else 0.
DLFLOW_INLINE Lanes pass_below(const Lanes& lanes, const Lanes& value, float most) {
  const IntLanes open = value < most;
  return Lanes(IntLanes(lanes) & open);
}

DLFLOW_INLINE Lanes maximum(const Lanes& a, const Lanes& b) {
  const IntLanes greater = a > b;
  return select(greater, a, b);
}

/// e to the power of each number, to 2 units in the last place; of what is below -87, 0 or nearly
/// so; NaN stays. x = n * ln 2 + r with |r| <= ln(2) / 2; a polynomial for e^r (Cephes, expf), and
/// n is added to the exponent.
DLFLOW_INLINE Lanes exponential(const Lanes& given) {
  const IntLanes is_low = given<-87.0f, is_high = given> 88.0f;
  const Lanes x = select(is_high, broadcast(88.0f), select(is_low, broadcast(-87.0f), given));
  const Lanes magic = broadcast(12582912.0f);  // 1.5 * 2^23: what is added to it becomes whole
  const Lanes n = (x * 1.44269504088896341f + magic) - magic;
  const Lanes r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Lanes p = broadcast(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const Lanes power = p * r * r + r + 1.0f;
  const IntLanes exponent = __builtin_convertvector(n, IntLanes) << 23;
  const Lanes result = Lanes(IntLanes(power) + exponent);
  const IntLanes is_nan = given != given;
  return select(is_nan, given, select(is_low, Lanes{}, result));
}

/// Negatives become 0, NaN stays: (x + |x|) / 2, which is exact, and vectors of AVX2, too, compute
/// without a comparison.
DLFLOW_INLINE Lanes relu(const Lanes& lanes) {
  const Lanes absolute = Lanes(IntLanes(lanes) & 0x7FFFFFFF);
  return (lanes + absolute) * 0.5f;
}

/// `lanes` where `gate`, the result of a ReLU, is above 0, else 0. As an integer, such a gate is
/// above 0 just when its negative has the sign bit, which the shift spreads over all bits, and it
/// has none itself: oneDNN's ReLU makes -0.0 of what is below 0 where there is no AVX2.
DLFLOW_INLINE Lanes pass(const Lanes& lanes, const Lanes& gate) {
  const IntLanes bits = IntLanes(gate);
  const IntLanes open = (~bits & -bits) >> 31;
  return Lanes(IntLanes(lanes) & open);
}

}  // namespace dlflow::runtime
