#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/bfloat16.h"
#include "base/vector_clones.h"

/// 16 numbers at once, in GCC's and Clang's vector extension: one AVX-512 register, two of AVX2.
/// For functions with DLFLOW_VECTOR_CLONES; functions they call must be inlined to be compiled for
/// the same target.
namespace dlflow::runtime {

using Lanes [[gnu::vector_size(64)]] = float;
/// One AVX2 register: for accumulators in loops and variables that a branch changes. Without
/// AVX-512, GCC 12 keeps Lanes in registers within a statement, but spills them to memory between
/// loop iterations and where branches join.
using HalfLanes [[gnu::vector_size(32)]] = float;
using DoubleLanes [[gnu::vector_size(128)]] = double;
using IntLanes [[gnu::vector_size(64)]] = int32_t;
using WordLanes [[gnu::vector_size(64)]] = uint32_t;
using ShortLanes [[gnu::vector_size(32)]] = uint16_t;
using HalfIntLanes [[gnu::vector_size(32)]] = int32_t;
using HalfWordLanes [[gnu::vector_size(32)]] = uint32_t;
using HalfShortLanes [[gnu::vector_size(16)]] = uint16_t;
constexpr int64_t kLanes = 16;

/// Here and below, `R` is Lanes or HalfLanes.
template <typename R>
constexpr int64_t kWidth = sizeof(R) / sizeof(float);

/// Number of registers that hold Lanes.
template <typename R>
constexpr int kRegisters = int(kLanes / kWidth<R>);

template <typename R>
struct BitsOf {
  using Ints = IntLanes;
  using Words = WordLanes;
  using Shorts = ShortLanes;
};
template <>
struct BitsOf<HalfLanes> {
  using Ints = HalfIntLanes;
  using Words = HalfWordLanes;
  using Shorts = HalfShortLanes;
};

template <typename Body>
DLFLOW_FOR_AVX512 void run_for_avx512(Body body) {
  body(Lanes());
}
template <typename Body>
DLFLOW_FOR_AVX2 void run_for_avx2(Body body) {
  body(HalfLanes());
}

/// Calls body(R()), which must be inlined, in code for this CPU. Unlike DLFLOW_VECTOR_CLONES, it
/// compiles only the R that is fast on each generation. The body should capture values, not
/// references, so that stores cannot change them.
template <typename Body>
void run_for_this_cpu(Body body) {
  if (has_avx512()) return run_for_avx512(body);
  has_avx2() ? run_for_avx2(body) : body(HalfLanes());
}

/// Loads all of R's numbers if Whole, else the first `width`.
template <bool Whole, typename R = Lanes>
DLFLOW_INLINE R load(const float* from, int64_t width) {
  R lanes = {};
  std::memcpy(&lanes, from, sizeof(float) * size_t(Whole ? kWidth<R> : width));
  return lanes;
}

template <bool Whole, typename R>
DLFLOW_INLINE void store(float* to, const R& lanes, int64_t width) {
  std::memcpy(to, &lanes, sizeof(float) * size_t(Whole ? kWidth<R> : width));
}

template <bool Whole, typename R = Lanes>
DLFLOW_INLINE R load(const BFloat16* from, int64_t width) {
  typename BitsOf<R>::Shorts shorts = {};
  std::memcpy(&shorts, from, sizeof(BFloat16) * size_t(Whole ? kWidth<R> : width));
  return R(__builtin_convertvector(shorts, typename BitsOf<R>::Words) << 16);
}

/// Rounds as narrow() does.
template <bool Whole, typename R>
DLFLOW_INLINE void store(BFloat16* to, const R& lanes, int64_t width) {
  using Words = typename BitsOf<R>::Words;
  using Ints = typename BitsOf<R>::Ints;
  const Words bits = Words(lanes);
  const Words rounded = bits + 0x7fff + ((bits >> 16) & 1);
  const Ints is_nan = Ints(bits & 0x7fffffff) > 0x7f800000;
  const Words upper = (is_nan ? bits | 0x400000 : rounded) >> 16;
  const auto shorts = __builtin_convertvector(upper, typename BitsOf<R>::Shorts);
  std::memcpy(to, &shorts, sizeof(BFloat16) * size_t(Whole ? kWidth<R> : width));
}

DLFLOW_INLINE DoubleLanes load(const double* from) {
  DoubleLanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

DLFLOW_INLINE void store(double* to, const DoubleLanes& lanes) {
  std::memcpy(to, &lanes, sizeof lanes);
}

/// Uses an integer, since GCC 12 compiles `value + Lanes{}` to an addition (-0 + 0 is 0), and
/// `value - Lanes{}` on AVX-512 to one masked load per lane.
template <typename R = Lanes>
DLFLOW_INLINE R broadcast(float value) {
  return R(std::bit_cast<int32_t>(value) + typename BitsOf<R>::Ints{});
}

/// Calls visit(start, count, whether count is 16) for `count` numbers, 16 at a time.
template <typename Visit>
DLFLOW_INLINE void for_each_lanes(int64_t count, Visit visit) {
  int64_t at = 0;
  for (; at + kLanes <= count; at += kLanes) visit(at, kLanes, std::true_type());
  if (at < count) visit(at, count - at, std::false_type());
}

/// a0 b0 a1 b1 ... of the first eight lanes of each; interleave_upper() takes the last eight.
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

/// Lanes, split into registers of type R.
template <typename R>
struct SplitLanes {
  R at[kRegisters<R>] = {};

  SplitLanes() = default;
  DLFLOW_INLINE explicit SplitLanes(const Lanes& lanes) { std::memcpy(at, &lanes, sizeof lanes); }

  DLFLOW_INLINE Lanes together() const {
    Lanes lanes;
    std::memcpy(&lanes, at, sizeof lanes);
    return lanes;
  }
};

DLFLOW_INLINE DoubleLanes to_double(const Lanes& lanes) {
  return __builtin_convertvector(lanes, DoubleLanes);
}

DLFLOW_INLINE Lanes to_single(const DoubleLanes& lanes) {
  return __builtin_convertvector(lanes, Lanes);
}

/// `a` where the mask is set, else `b`. A comparison must be stored as a mask first: GCC 12
/// compiles `x > y ? a : b` to one scalar comparison per lane.
template <typename Mask, typename T>
DLFLOW_INLINE T select(const Mask& mask, const T& a, const T& b) {
  return mask ? a : b;
}

DLFLOW_INLINE float sum_of(const Lanes& lanes) {
  float sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += lanes[i];
  return sum;
}

/// NaN stays.
template <typename R>
DLFLOW_INLINE R cap(const R& lanes, float most) {
  const typename BitsOf<R>::Ints greater = lanes > most;
  return select(greater, broadcast<R>(most), lanes);
}

/// `lanes` where `value` is below `most`, else 0.
template <typename R>
DLFLOW_INLINE R pass_below(const R& lanes, const R& value, float most) {
  const typename BitsOf<R>::Ints open = value < most;
  return R(typename BitsOf<R>::Ints(lanes) & open);
}

DLFLOW_INLINE Lanes maximum(const Lanes& a, const Lanes& b) {
  const IntLanes greater = a > b;
  return select(greater, a, b);
}

/// exp(x) within 2 units in the last place; below -87 the result is 0 or nearly 0; NaN stays. With
/// x = n ln(2) + r and |r| <= ln(2) / 2, a polynomial gives e^r (Cephes, expf), and n is added to
/// the exponent.
DLFLOW_INLINE Lanes exponential(const Lanes& given) {
  const IntLanes is_low = given<-87.0f, is_high = given> 88.0f;
  const Lanes x = select(is_high, broadcast(88.0f), select(is_low, broadcast(-87.0f), given));
  const Lanes magic = broadcast(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
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

/// Negatives become 0, NaN stays. (x + |x|) / 2 is exact and needs no comparison, also on AVX2.
template <typename R>
DLFLOW_INLINE R relu(const R& lanes) {
  const R absolute = R(typename BitsOf<R>::Ints(lanes) & 0x7FFFFFFF);
  return (lanes + absolute) * 0.5f;
}

/// `lanes` where `gate`, the result of a ReLU, is above 0, else 0. As an integer, it is above 0 if
/// its sign bit is clear and that of its negative is set; the shift copies this bit to all others.
/// The first test excludes -0.0, into which oneDNN's ReLU turns negatives without AVX2.
template <typename R>
DLFLOW_INLINE R pass(const R& lanes, const R& gate) {
  using Ints = typename BitsOf<R>::Ints;
  const Ints bits = Ints(gate);
  const Ints open = (~bits & -bits) >> 31;
  return R(Ints(lanes) & open);
}

}  // namespace dlflow::runtime
