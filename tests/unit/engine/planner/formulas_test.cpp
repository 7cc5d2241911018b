#include "engine/planner/formulas.h"

#include <cmath>
#include <vector>

#include "tests/support/catch.h"

using namespace dlflow::planner;

TEST_CASE("a fit finds the two costs behind the measured times", "[planner]") {
  std::vector<Sample> samples;  // 50 us a message, 1 ns a byte
  for (const double bytes : {1024.0, 65536.0, 16777216.0}) {
    samples.push_back({2, bytes, 2 * 50e-6 + bytes * 1e-9});
  }
  const AlphaBeta costs = fit(samples);
  CHECK(costs.alpha == Approx(50e-6));
  CHECK(costs.beta == Approx(1e-9));
}

TEST_CASE("no cost of a fit is negative", "[planner]") {
  // A line through these two would start at -1.
  const AlphaBeta costs = fit(std::vector<Sample>{{1, 2, 1}, {1, 4, 3}});
  CHECK(costs.alpha == 0);
  CHECK(costs.beta == Approx((2.0 + 4.0 / 3) / (4.0 + 16.0 / 9)));
  CHECK(fit({}).beta == 0);
}

TEST_CASE("a fit of one sample goes through the origin", "[planner]") {
  CHECK(fit(std::vector<Sample>{{1, 32, 0.064}}).beta == Approx(0.002));
}

TEST_CASE("80 % on 4 ranks needs an overhead of one eleventh", "[planner]") {
  CHECK(lemma1_ranks(1.0 / 11, 0.8) == Approx(4));  // 0.8 = (12/11) / (15/11)
  CHECK(lemma1_ranks(0.25, 1) == Approx(1));
  CHECK(std::isinf(lemma1_ranks(0, 0.5)));
}

TEST_CASE("parameter servers hide their traffic behind a step", "[planner]") {
  // 2 * 100 MB * 4 workers in 0.5 s, over servers of 125 MB/s: 12.8
  CHECK(lemma2_servers(100e6, 4, 125e6, 0.5) == 13);
  CHECK(lemma2_servers(1e6, 1, 125e6, 0.5) == 1);
}

TEST_CASE("at the noise scale twice the batch needs three quarters of the steps", "[planner]") {
  CHECK(step_ratio(200, 100, 100) == Approx(0.75));  // (1 + 1/2) / (1 + 1)
  CHECK(step_ratio(100, 100, 1e9) == 1);
}

TEST_CASE("a message waits for the pauses of two ranks with half a core each", "[planner]") {
  // 1 ms of each 2: one of them is off half of the time, for 0.5 ms more; both a quarter, for 2/3.
  CHECK(pause_seconds(0.5, 0.002) == Approx(0.5 * 0.5e-3 + 0.25 * 2e-3 / 3));
  CHECK(pause_seconds(1, 0.002) == 0);
}

TEST_CASE("without latency top-k is faster below one element in P", "[planner]") {
  const AlphaBeta link{0, 1e-9};
  const double ring = 2 * 3.0 / 4 * 1e6 * 1e-9;  // dense, 4 ranks, 1 MB
  CHECK(sparse_crossover(link, 4, 1e6, ring) == Approx(0.25));
  CHECK(all_gather_seconds(link, 4, 2 * 0.25 * 1e6) == Approx(ring));
  CHECK(sparse_crossover({1, 1e-9}, 4, 1e6, ring) == 0);
}
