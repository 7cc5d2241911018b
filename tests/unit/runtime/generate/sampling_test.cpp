#include "runtime/generate/sampling.h"

#include <array>
#include <cmath>
#include <map>

#include "tests/support/catch.h"

using namespace dlflow::runtime;

namespace {

/// Softmax: 0.1, 0.4, 0.2, 0.3.
const std::array<float, 4> kScores = {std::log(1.0f), std::log(4.0f), std::log(2.0f),
                                      std::log(3.0f)};

/// The share of all random numbers with which each token is chosen.
std::map<uint32_t, double> shares(const Sampling& sampling) {
  constexpr int kDraws = 1000;
  std::map<uint32_t, double> result;
  for (int i = 0; i < kDraws; ++i) {
    result[choose_token(kScores, sampling, (i + 0.5) / kDraws)] += 1.0 / kDraws;
  }
  return result;
}

void check(const Sampling& sampling, const std::map<uint32_t, double>& expected) {
  const auto found = shares(sampling);
  REQUIRE(found.size() == expected.size());
  for (const auto& [token, share] : expected) {
    CHECK(found.at(token) == Approx(share).margin(0.0015));
  }
}

}  // namespace

TEST_CASE("tokens are chosen with their probabilities", "[sampling]") {
  check({}, {{0, 0.1}, {1, 0.4}, {2, 0.2}, {3, 0.3}});
  check({.temperature = 0.5}, {{0, 1 / 30.0}, {1, 16 / 30.0}, {2, 4 / 30.0}, {3, 9 / 30.0}});
}

TEST_CASE("top_k and top_p leave the likeliest", "[sampling]") {
  check({.top_k = 2}, {{1, 4 / 7.0}, {3, 3 / 7.0}});
  check({.top_k = 9}, {{0, 0.1}, {1, 0.4}, {2, 0.2}, {3, 0.3}});
  check({.top_p = 0.6}, {{1, 4 / 7.0}, {3, 3 / 7.0}});
  check({.top_p = 0.8}, {{1, 4 / 9.0}, {3, 3 / 9.0}, {2, 2 / 9.0}});
  check({.top_p = 1e-9}, {{1, 1}});
  check({.top_k = 3, .top_p = 0.5}, {{1, 4 / 7.0}, {3, 3 / 7.0}});
}

TEST_CASE("temperature 0 takes the highest score, of equal ones the first", "[sampling]") {
  for (const double uniform : {0.0, 0.5, 0.999}) {
    CHECK(choose_token(kScores, {.temperature = 0}, uniform) == 1);
    CHECK(choose_token(std::array{2.0f, 5.0f, 5.0f}, {.temperature = 0}, uniform) == 1);
    CHECK(choose_token(std::array{2.0f, 5.0f, 5.0f}, {.top_k = 1}, uniform) == 1);
  }
}
