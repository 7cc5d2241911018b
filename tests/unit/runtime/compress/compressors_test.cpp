// Tests each method against a plain reference, and the guarantees of all methods.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "runtime/compress/compressed_sum.h"
#include "runtime/compress/compression.h"
#include "runtime/compress/methods.h"
#include "runtime/compress/sparse_message.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/compress/gradients.h"
#include "tests/unit/runtime/compress/selection.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

const std::vector<CompressionMethod> kMethods = {
    CompressionMethod::Float16, CompressionMethod::BFloat16, CompressionMethod::Int8,
    CompressionMethod::TopK,    CompressionMethod::MsTopK,   CompressionMethod::RandomK};

std::vector<float> decode(const Compressor& compressor, const std::vector<std::byte>& message,
                          size_t count, const Occasion& occasion) {
  std::vector<float> values(count);
  compressor.add(message, occasion, 1, values);
  return values;
}

std::vector<float> there_and_back(const Compressor& compressor, const std::vector<float>& values,
                                  const Occasion& occasion = {}) {
  return decode(compressor, encode(compressor, values, occasion), values.size(), occasion);
}

}  // namespace

TEST_CASE("top-k sends exactly the largest, and the first of equals", "[compress]") {
  const size_t count = GENERATE(1, 2, 17, 1000, 10007);
  const double density = GENERATE(0.001, 0.1, 0.5, 1.0);
  std::vector<float> values = some_gradients(count, 1);
  if (GENERATE(false, true)) {
    for (float& value : values) value = std::round(value * 100) / 100;  // many equals
  }
  CHECK(indices_of(*make_top_k(), values, at_density(density)) ==
        largest_by_sorting(values, num_sent(count, density)));
}

TEST_CASE("MSTopK sends the requested number, nearly all of them the largest", "[compress]") {
  const size_t count = GENERATE(1, 3, 1000, 131072);
  const double density = GENERATE(0.001, 0.01, 0.05, 0.4, 0.9, 1.0);  // from 0.4 on: below the mean
  const std::vector<float> values = some_gradients(count, 2);
  const auto found = indices_of(*make_ms_top_k(), values, at_density(density));
  const auto best = largest_by_sorting(values, num_sent(count, density));
  CHECK(found.size() == best.size());
  CHECK(std::ranges::adjacent_find(found, std::greater_equal()) == found.end());  // all different
  CHECK(found.back() < count);
  std::vector<uint32_t> common;
  std::ranges::set_intersection(found, best, std::back_inserter(common));
  CHECK(double(common.size()) >= 0.99 * double(best.size()));
}

TEST_CASE("MSTopK finds the largest numbers beside one that is larger by orders of magnitude",
          "[compress]") {
  std::vector<float> values = some_gradients(10000, 4);
  values[77] = GENERATE(1e6f, 1e18f, -1e38f);
  const auto found = indices_of(*make_ms_top_k(), values, at_density(0.01));
  const auto best = largest_by_sorting(values, 100);
  std::vector<uint32_t> common;
  std::ranges::set_intersection(found, best, std::back_inserter(common));
  CHECK(common.size() >= 99);
}

TEST_CASE("MSTopK sends the largest where many others are nearly as large", "[compress]") {
  std::vector<float> values(1000, 1.0f);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(1.0f) + uint32_t(i % 8));
  }
  for (const size_t i : {3, 500, 999}) values[i] = std::bit_cast<float>(0x3f800009u);
  CHECK(indices_of(*make_ms_top_k(), values, at_density(0.003)) ==
        std::vector<uint32_t>{3, 500, 999});
}

TEST_CASE("MSTopK separates numbers that are close to the mean on both sides", "[compress]") {
  std::vector<float> values(1024);
  std::vector<uint32_t> larger;
  for (uint32_t i = 0; i < values.size(); ++i) {
    const bool is_larger = i % 7 % 2 == 1 && larger.size() < values.size() / 2;
    values[i] = is_larger ? 1.000002f : 0.999998f;
    if (is_larger) larger.push_back(i);
  }
  values[larger.front()] = 1.000004f;
  const double density = double(larger.size()) / double(values.size());
  CHECK(indices_of(*make_ms_top_k(), values, at_density(density)) == larger);
}

TEST_CASE("MSTopK sends as many as asked for where numbers are equal", "[compress]") {
  const size_t count = GENERATE(1, 5, 1000);
  const double density = GENERATE(0.01, 0.5, 1.0);
  const float value = GENERATE(0.0f, 0.1f, -3.0f, 1e-40f, 3e38f);
  std::vector<float> values(count, value);
  SECTION("all are equal") {}
  SECTION("more than requested share the largest value") { values[count / 2] = value / 2; }
  SECTION("one is smaller and one is larger") {
    values.front() = value / 2;
    values.back() = value * 1.5f;  // infinite for 3e38
  }
  const auto found = indices_of(*make_ms_top_k(), values, at_density(density));
  CHECK(found.size() == num_sent(count, density));
  CHECK(std::ranges::adjacent_find(found, std::greater_equal()) == found.end());
  CHECK(found.back() < count);
}

TEST_CASE("MSTopK chooses at random among equals, the same way each time", "[compress]") {
  const std::vector<float> values(1000, 1.0f);
  std::vector<std::vector<uint32_t>> picks;
  for (uint64_t step = 0; step < 20; ++step) {
    Occasion occasion = at_density(0.25);
    occasion.step = step;
    picks.push_back(indices_of(*make_ms_top_k(), values, occasion));
    CHECK(picks.back() == indices_of(*make_ms_top_k(), values, occasion));
    CHECK(picks.back().back() - picks.back().front() == 249);  // neighbours
  }
  CHECK(std::ranges::count(picks, picks[0]) < 20);
}

TEST_CASE("random-k sends one number of each neighbourhood, the same on all ranks", "[compress]") {
  const size_t count = GENERATE(1, 10, 1003);
  const double density = GENERATE(0.05, 0.5, 1.0);
  const Occasion occasion = at_density(density);
  const std::vector<float> mine = some_gradients(count, 1), theirs = some_gradients(count, 2);
  const std::vector<float> sent = there_and_back(*make_random_k(), mine, occasion);
  const std::vector<float> others = there_and_back(*make_random_k(), theirs, occasion);
  const size_t wanted = num_sent(count, density);
  CHECK(size_t(std::ranges::count_if(sent, [](float v) { return v != 0; })) == wanted);
  for (size_t i = 0; i < count; ++i) {
    CHECK((sent[i] == 0 || sent[i] == mine[i]));
    CHECK((sent[i] == 0) == (others[i] == 0));
  }
  for (size_t k = 0; k < wanted; ++k) {
    const auto begin = sent.begin() + long(k * count / wanted);
    const auto end = sent.begin() + long((k + 1) * count / wanted);
    CHECK(std::count_if(begin, end, [](float v) { return v != 0; }) == 1);
  }
}

TEST_CASE("random-k picks other places in another step or range", "[compress]") {
  const std::vector<float> values = some_gradients(1000, 1);
  Occasion other_step = at_density(0.1), other_range = at_density(0.1);
  ++other_step.step;
  ++other_range.first;
  const auto sent = there_and_back(*make_random_k(), values, at_density(0.1));
  CHECK(there_and_back(*make_random_k(), values, other_step) != sent);
  CHECK(there_and_back(*make_random_k(), values, other_range) != sent);
}

TEST_CASE("floats are rounded to the nearest half", "[compress]") {
  const std::vector<float> values = some_gradients(1500, 1);
  const auto halves = there_and_back(*make_half(DataType::Float16), values);
  const auto rough = there_and_back(*make_half(DataType::BFloat16), values);
  for (size_t i = 0; i < values.size(); ++i) {
    CHECK(std::fabs(halves[i] - values[i]) <= std::fabs(values[i]) * 0x1p-11f + 0x1p-25f);
    CHECK(std::fabs(rough[i] - values[i]) <= std::fabs(values[i]) * 0x1p-8f);
  }
  const std::vector<float> exact = {0, -0.0f, 1, -1.5f, 0x1p-14f, 65504};
  CHECK(there_and_back(*make_half(DataType::Float16), exact) == exact);
}

TEST_CASE("a number beyond the range of fp16 becomes its largest, not infinity", "[compress]") {
  CHECK(there_and_back(*make_half(DataType::Float16), {1e30f, -65520}) ==
        std::vector<float>{65504, -65504});
  const float largest = std::numeric_limits<float>::max();
  CHECK(there_and_back(*make_half(DataType::BFloat16), {largest}) ==
        std::vector<float>{0x1.FEp127f});
}

TEST_CASE("int8 is within half a step of each block's scale", "[compress]") {
  const size_t count = GENERATE(1, 255, 256, 257, 1000);
  std::vector<float> values = some_gradients(count, 1);
  for (size_t i = 256; i < std::min<size_t>(count, 512); ++i) values[i] *= 1000;
  const auto rough = there_and_back(*make_int8(), values);
  for (size_t first = 0; first < count; first += kInt8Block) {
    const size_t end = std::min(count, first + kInt8Block);
    float greatest = 0;
    for (size_t i = first; i < end; ++i) greatest = std::max(greatest, std::fabs(values[i]));
    for (size_t i = first; i < end; ++i) {
      CHECK(std::fabs(rough[i] - values[i]) <= greatest / 127 * 0.501f);
    }
  }
  CHECK(there_and_back(*make_int8(), std::vector<float>(count)) == std::vector<float>(count));
  CHECK(there_and_back(*make_int8(), {1e-45f, 0}) == std::vector<float>{0, 0});
}

TEST_CASE("a message and its residual add up to the gradient", "[compress]") {
  const auto compressor = make_compressor(GENERATE(from_range(kMethods)));
  const size_t count = GENERATE(1, 300, 4001);
  std::vector<float> error(count);
  std::vector<double> gradients(count), sent(count);
  for (uint32_t step = 0; step < 20; ++step) {
    Occasion occasion = at_density(0.05);
    occasion.step = step;
    const std::vector<float> gradient = some_gradients(count, 1, step);
    for (size_t i = 0; i < count; ++i) {
      gradients[i] += double(gradient[i]);
      error[i] += gradient[i];
    }
    std::vector<std::byte> message(compressor->message_bytes(count, occasion));
    compress(*compressor, occasion, {error, {}}, message);
    const auto now = decode(*compressor, message, count, occasion);
    for (size_t i = 0; i < count; ++i) sent[i] += double(now[i]);
  }
  for (size_t i = 0; i < count; ++i) {
    CHECK(sent[i] + double(error[i]) == Approx(gradients[i]).margin(2e-6));
  }
}

TEST_CASE("a message keeps a NaN or an infinity at any position", "[compress]") {
  const CompressionMethod method = GENERATE(from_range(kMethods));
  const auto compressor = make_compressor(method);
  CAPTURE(int(method));
  const float broken = GENERATE(as<float>{}, kNan, kInf, -kInf);
  const size_t count = GENERATE(2, 1000);  // one of 2 is sent
  const size_t place = GENERATE(0, 123, 999);
  std::vector<float> values = some_gradients(count, 1);
  values[place % count] = broken;
  const auto received = there_and_back(*compressor, values, at_density(0.01));
  CHECK(std::ranges::any_of(received, [](float value) { return !std::isfinite(value); }));
}

TEST_CASE("an empty range makes an empty message", "[compress]") {
  const auto compressor = make_compressor(GENERATE(from_range(kMethods)));
  CHECK(compressor->message_bytes(0, at_density(0.01)) == 0);
  CHECK(there_and_back(*compressor, {}, at_density(0.01)).empty());
}

TEST_CASE("the velocity of sent numbers becomes zero, and others keep theirs", "[compress]") {
  std::vector<float> error = {1, 5, 2, -7}, velocity = {1, 2, 3, 4};
  std::vector<std::byte> message(make_top_k()->message_bytes(4, at_density(0.5)));
  compress(*make_top_k(), at_density(0.5), {error, velocity}, message);
  CHECK(error == std::vector<float>{1, 0, 2, 0});
  CHECK(velocity == std::vector<float>{1, 0, 3, 0});
}

TEST_CASE("momentum is added before anything is sent", "[compress]") {
  std::vector<float> velocity = {1, -2}, gradient = {10, 20};
  correct_momentum(0.5f, velocity, gradient);
  CHECK(velocity == std::vector<float>{10.5f, 19});
  CHECK(gradient == velocity);
}

TEST_CASE("gradients beyond a norm are scaled down to it", "[compress]") {
  std::vector<float> gradient = {3, -4};
  clip_norm(5, gradient);
  CHECK(gradient == std::vector<float>{3, -4});
  clip_norm(2.5, gradient);
  CHECK(gradient == std::vector<float>{1.5f, -2});
  gradient[0] = kInf;
  clip_norm(1, gradient);
  CHECK(gradient == std::vector<float>{kInf, -2});
}

TEST_CASE("the density falls to its value while warming up", "[compress]") {
  const Compression dgc{.density = 0.001, .warmup_epochs = 4};
  CHECK(density_in_epoch(dgc, 0) == Approx(0.25).epsilon(0.01));
  CHECK(density_in_epoch(dgc, 1) == Approx(0.0625).epsilon(0.02));
  CHECK(density_in_epoch(dgc, 3) == Approx(0.004).epsilon(0.01));
  CHECK(density_in_epoch(dgc, 4) == 0.001);
  CHECK(density_in_epoch({.density = 0.01}, 0) == 0.01);
}
