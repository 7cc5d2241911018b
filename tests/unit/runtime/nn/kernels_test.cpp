// Kernels on bf16 must give the rounded results of the same numbers in fp32.
#include "runtime/nn/kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "base/bfloat16.h"
#include "runtime/nn/row_kernels.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

/// The same numbers in both types; the initial ones are exact in both.
struct Both {
  std::vector<float> floats;
  std::vector<BFloat16> bf16;

  Numbers as(bool is_bf16) { return is_bf16 ? Numbers{bf16.data(), true} : Numbers{floats.data()}; }

  bool agree() const {
    return std::ranges::equal(
        floats, bf16, {}, [](float f) { return narrow(f).bits; },
        [](BFloat16 h) { return h.bits; });
  }
};

/// Multiples of 1/8 from -4 to 4: sums of two are also exact.
Both random_numbers(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  Both both;
  for (size_t i = 0; i < count; ++i) {
    both.floats.push_back(float(int(generator() % 65) - 32) / 8);
    both.bf16.push_back(narrow(both.floats.back()));
  }
  return both;
}

/// nhwc: the last group of channels may have fewer than 16.
MapGeometry geometry(int64_t images, int64_t side, int64_t channels) {
  MapGeometry g;
  g.images = images;
  g.height = g.width = side;
  g.groups = (channels + 15) / 16;
  g.last_group = channels - (g.groups - 1) * 16;
  g.image_stride = side * side * channels;
  g.group_stride = 16;
  g.pixel_stride = channels;
  return g;
}

}  // namespace

TEST_CASE("numbers are rounded to the nearest bf16, ties to even, and NaN stays NaN", "[kernels]") {
  CHECK(narrow(1.0f).bits == 0x3f80);
  CHECK(narrow(1.0f + 0x1p-8f).bits == 0x3f80);
  CHECK(narrow(1.0f + 0x1.8p-7f).bits == 0x3f82);
  CHECK(narrow(1.0f + 0x1.02p-8f).bits == 0x3f81);
  CHECK(narrow(-0.0f).bits == 0x8000);
  CHECK(narrow(std::numeric_limits<float>::max()).bits == 0x7f80);
  CHECK(std::isnan(widen(narrow(std::bit_cast<float>(0xffffffff)))));
  CHECK(std::isnan(widen(narrow(std::bit_cast<float>(0x7f800001)))));
  CHECK(widen(narrow(-2.5f)) == -2.5f);
}

TEST_CASE("elementwise kernels of bf16 give the rounded results of fp32", "[kernels]") {
  const size_t count = GENERATE(1, 16, 37);
  const bool with_relu = GENERATE(false, true);
  Both a = random_numbers(count, 1), b = random_numbers(count, 2), y = random_numbers(count, 3);
  Both rectified = y;
  for (const bool is_bf16 : {false, true}) {
    relu(y.as(is_bf16), rectified.as(is_bf16), count);
    add(a.as(is_bf16), b.as(is_bf16), with_relu, y.as(is_bf16), count);
    finish_gradient(a.as(is_bf16), b.as(is_bf16), with_relu ? rectified.as(is_bf16) : Numbers(),
                    count);
  }
  CHECK(rectified.agree());
  CHECK(std::ranges::min(rectified.floats) >= 0);
  CHECK(y.agree());
  CHECK(a.agree());
}

TEST_CASE("no gradient goes back through a ReLU that made -0.0", "[kernels]") {
  const size_t count = GENERATE(3, 16, 40);
  Both gradient = random_numbers(count, 1), gate = random_numbers(count, 2);
  for (size_t i = 0; i < count; ++i) {
    const float result = std::array{-0.0f, 0.0f, 1e-3f}[i % 3];
    gate.floats[i] = result;
    gate.bf16[i] = narrow(result);
  }
  const Both before = gradient;
  for (const bool is_bf16 : {false, true}) {
    finish_gradient(gradient.as(is_bf16), Numbers(), gate.as(is_bf16), count);
  }
  for (size_t i = 0; i < count; ++i) {
    CHECK(gradient.floats[i] == (i % 3 == 2 ? before.floats[i] : 0.0f));
  }
  CHECK(gradient.agree());
}

TEST_CASE("the kernels of bf16 pass on NaN", "[kernels]") {
  Both a = random_numbers(20, 1), b = random_numbers(20, 2), sum = a;
  for (const size_t i : {size_t(3), size_t(17)}) {
    a.bf16[i] = narrow(std::bit_cast<float>(0xffffffff));
  }
  add(a.as(true), b.as(true), true, sum.as(true), 20);
  for (size_t i = 0; i < 20; ++i) {
    CHECK(std::isnan(widen(sum.bf16[i])) == (i == 3 || i == 17));
  }
}

TEST_CASE("batch normalisation of bf16 gives the rounded results of fp32", "[kernels]") {
  const int64_t channels = GENERATE(5, 16, 36);
  const MapGeometry g = geometry(3, 5, channels);
  const auto count = size_t(3 * g.image_stride), width = size_t(16 * g.groups);
  std::vector<float> weight(width, 0), bias(width, 0);
  for (size_t i = 0; i < size_t(channels); ++i) weight[i] = 1 + float(i), bias[i] = float(i) / 4;
  Both x = random_numbers(count, 1), residual = random_numbers(count, 2), y = x, inferred = x;
  Both dy = random_numbers(count, 3), more_dy = random_numbers(count, 4), dx = x;
  struct Result {
    std::vector<float> mean, variance, weight_gradient, bias_gradient;
    std::vector<double> sums, squares;
    bool operator==(const Result&) const = default;
  };
  Result results[2];
  for (const bool is_bf16 : {false, true}) {
    Result& r = results[is_bf16];
    r = {weight, weight, weight, weight, std::vector<double>(width), std::vector<double>(width)};
    const BatchNormParameters p = {weight.data(), bias.data()};
    batch_norm_forward(
        g, {.x = x.as(is_bf16), .residual = residual.as(is_bf16), .y = y.as(is_bf16), .relu = true},
        p, r.mean.data(), r.variance.data());
    batch_norm_infer(g, {.x = x.as(is_bf16), .y = inferred.as(is_bf16)}, p, r.mean.data(),
                     r.variance.data());
    batch_norm_sums(g, x.as(is_bf16), r.sums.data(), r.squares.data());
    batch_norm_backward(g,
                        {x.as(is_bf16), weight.data(), r.mean.data(), r.variance.data(),
                         y.as(is_bf16), dy.as(is_bf16), more_dy.as(is_bf16), dx.as(is_bf16)},
                        {r.weight_gradient.data(), r.bias_gradient.data()});
  }
  CHECK(results[0] == results[1]);
  CHECK(y.agree());
  CHECK(inferred.agree());
  CHECK(dy.agree());
  CHECK(dx.agree());
}

TEST_CASE("max pooling of bf16 gives the rounded results of fp32", "[kernels]") {
  const int64_t channels = GENERATE(5, 32);
  const int64_t side = GENERATE(6, 7);
  const MapGeometry g = geometry(2, side, channels);
  const PoolWindow window =
      GENERATE(PoolWindow{2, 2, 0, 3, 3}, PoolWindow{2, 1, 0, 5, 5}, PoolWindow{3, 2, 1, 3, 3});
  const auto count = size_t(2 * g.image_stride);
  const auto out_count = size_t(2 * window.out_height * window.out_width * channels);
  Both x = random_numbers(count, 1), y = random_numbers(out_count, 2), dx = x, dy = y;
  std::vector<uint16_t> chosen[2];
  for (const bool is_bf16 : {false, true}) {
    chosen[is_bf16].resize(out_count);
    max_pool_forward({g, window, true}, x.as(is_bf16), y.as(is_bf16), chosen[is_bf16].data());
    max_pool_backward({g, window}, dy.as(is_bf16), chosen[is_bf16].data(), dx.as(is_bf16));
  }
  CHECK(chosen[0] == chosen[1]);
  CHECK(y.agree());
  CHECK(dx.agree());
}

TEST_CASE("the first five of equal scores count as the top 5, and none beside NaN", "[kernels]") {
  const std::vector<float> equal(10, 0.5f);
  for (uint32_t label = 0; label < 10; ++label) {
    CAPTURE(label);
    CHECK(num_in_top5(equal, std::vector{label}) == (label < 5 ? 1 : 0));
  }

  const std::vector<float> scores = {3, 1, 4, 1, 5, 9, 2, 6};  // the top five: 5, 7, 4, 2, 0
  for (uint32_t label = 0; label < 8; ++label) {
    CAPTURE(label);
    const bool is_high = std::set<uint32_t>{5, 7, 4, 2, 0}.contains(label);
    CHECK(num_in_top5(scores, std::vector{label}) == (is_high ? 1 : 0));
  }

  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const uint32_t label : {0u, 1u, 6u}) {
    CHECK(num_in_top5(std::vector<float>{nan, 1, 2, 3, 4, 5, 6}, std::vector{label}) == 0);
    CHECK(num_in_top5(std::vector<float>(7, nan), std::vector{label}) == 0);
  }

  std::vector<float> two = scores;  // two samples, each with its own label
  two.insert(two.end(), scores.rbegin(), scores.rend());
  CHECK(num_in_top5(two, std::vector<uint32_t>{7, 7}) == 2);
  CHECK(num_in_top5(two, std::vector<uint32_t>{1, 0}) == 1);
}

TEST_CASE("right answers are counted only in rows with a target", "[kernels]") {
  const std::vector<float> scores = {0, 2, 1, 3, 0, 0, 1, 1, 0, 0, 0, 5};
  const std::vector<uint32_t> targets = {1, kNoTarget, 0, 1};
  const std::vector<float> shares = {1, 1, 1, 1};
  std::vector<float> probabilities(scores.size());
  const TokenSums sums =
      token_cross_entropy({scores.data(), 4, 3}, {targets, shares}, probabilities.data());
  CHECK(sums.num_targets == 3);
  CHECK(sums.num_correct == 2);  // the first of equal scores is the answer
  const double loss = std::log(1 + std::exp(-1) + std::exp(-2)) + std::log(2 + std::exp(-1)) +
                      std::log(2 + std::exp(5));
  CHECK(sums.loss == Approx(loss).epsilon(1e-6));
}
