// The few candidates in a long range that contain the largest numbers.
#include "runtime/compress/candidates.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "runtime/compress/methods.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/compress/gradients.h"
#include "tests/unit/runtime/compress/selection.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;

namespace {

constexpr size_t kLong = 1'000'007;

/// Ranges that a sample describes badly or wrongly.
std::vector<float> misleading(const std::string& kind) {
  std::vector<float> values = some_gradients(kLong, 1);
  const auto by_magnitude = [](float a, float b) { return std::fabs(a) < std::fabs(b); };
  if (kind == "ascending") std::ranges::sort(values, by_magnitude);
  if (kind == "large ones in a row") {
    std::ranges::for_each(values.begin() + 4000, values.begin() + 20000, [](float& v) { v *= 9; });
  }
  if (kind == "a large column") {
    for (size_t i = 5; i < kLong; i += 1024) values[i] *= 1e4f;
  }
  if (kind == "many equals") {
    for (float& value : values) value = std::round(value * 20) / 20;
  }
  if (kind == "zeros but a few") {
    for (size_t i = 0; i < kLong; ++i) values[i] = i % 5000 == 77 ? values[i] : 0.0f;
  }
  if (kind == "not all finite") {
    for (size_t i = 0; i < kLong; i += 1000) values[i] = -std::numeric_limits<float>::infinity();
    values[123'456] = std::numeric_limits<float>::quiet_NaN();
  }
  return values;
}

}  // namespace

TEST_CASE("the largest numbers of a long range are among few candidates", "[compress]") {
  const auto wanted = size_t(GENERATE(0.005, 0.01, 0.1, 0.5) * double(kLong));
  const std::vector<float> values = some_gradients(kLong, 2);
  const auto found = sampled_candidates(values, wanted);
  REQUIRE(found);
  CHECK(found->size() >= wanted);
  CHECK(found->size() <= 3 * wanted);
  CHECK(std::ranges::adjacent_find(found->indices(), std::greater_equal()) ==
        found->indices().end());
  CHECK(std::ranges::includes(found->indices(), largest_by_sorting(values, wanted)));
  float least = std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < found->size(); ++i) {
    REQUIRE(found->values()[i] == values[found->indices()[i]]);
    least = std::min(least, std::fabs(found->values()[i]));
  }
  const auto from_least = [&](float value) { return std::fabs(value) >= least; };
  CHECK(size_t(std::ranges::count_if(values, from_least)) == found->size());
}

TEST_CASE("a short range is not sampled", "[compress]") {
  const std::vector<float> values = some_gradients(1000, 2);
  CHECK_FALSE(sampled_candidates(values, 10));
  CHECK_FALSE(sampled_candidates({}, 0));
}

TEST_CASE("the largest numbers of a long range are sent even if its sample misleads",
          "[compress]") {
  const std::string kind = GENERATE("usual", "ascending", "large ones in a row", "a large column",
                                    "many equals", "zeros but a few", "not all finite");
  const double density = GENERATE(0.004, 0.01, 0.6);
  INFO(kind << ", density " << density);
  const std::vector<float> values = misleading(kind);
  const auto best = largest_by_sorting(values, num_sent(kLong, density));
  CHECK(indices_of(*make_top_k(), values, at_density(density)) == best);

  const auto found = indices_of(*make_ms_top_k(), values, at_density(density));
  REQUIRE(found.size() == best.size());
  CHECK(std::ranges::adjacent_find(found, std::greater_equal()) == found.end());
  const auto magnitudes = [&](const std::vector<uint32_t>& indices) {
    double sum = 0;
    for (const uint32_t i : indices) {
      if (std::isfinite(values[i])) sum += double(std::fabs(values[i]));
    }
    return sum;
  };
  CHECK(magnitudes(found) >= 0.99 * magnitudes(best));
}
