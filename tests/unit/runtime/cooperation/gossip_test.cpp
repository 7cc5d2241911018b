#include <atomic>
#include <thread>

#include "runtime/cooperation/exchange_graph.h"
#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"
#include "tests/unit/runtime/cooperation/fake_learner.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

using Matrix = std::vector<std::vector<double>>;

/// The matrix by which round `round` multiplies the ranks' states.
Matrix mixing(uint64_t round, int ranks) {
  const auto size = static_cast<size_t>(ranks);
  Matrix matrix(size, std::vector<double>(size));
  for (int rank = 0; rank < ranks; ++rank) {
    matrix[size_t(rank)][size_t(rank)] += 0.5;
    matrix[size_t(rank)][size_t(neighbours(round, rank, ranks).from)] += 0.5;
  }
  return matrix;
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.size(), std::vector<double>(a.size()));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t k = 0; k < a.size(); ++k)
      for (size_t j = 0; j < a.size(); ++j) c[i][j] += a[i][k] * b[k][j];
  return c;
}

constexpr uint64_t kLong = 1000000;

}  // namespace

TEST_CASE("in every round, a rank receives from the rank that sends to it", "[cooperation]") {
  const int ranks = GENERATE(1, 2, 3, 4, 5, 6, 7, 8, 13);
  for (uint64_t round = 0; round < 10; ++round) {
    for (int rank = 0; rank < ranks; ++rank) {
      const Neighbours mine = neighbours(round, rank, ranks);
      CHECK(neighbours(round, mine.to, ranks).from == rank);
      CHECK(neighbours(round, mine.from, ranks).to == rank);
      CHECK((mine.to == rank) == (ranks == 1));
    }
  }
}

TEST_CASE("gossip mixes by doubly stochastic matrices that converge to the mean", "[cooperation]") {
  const int ranks = GENERATE(1, 2, 3, 4, 5, 6, 8, 13, 16);
  const uint64_t first = GENERATE(0u, 1u, 5u);
  Matrix all = mixing(first, ranks);
  double spread = 1;
  for (uint64_t round = first + 1; round < first + 60; ++round) {
    for (size_t i = 0; i < all.size(); ++i) {
      double row = 0, column = 0;
      for (size_t j = 0; j < all.size(); ++j) {
        row += all[i][j];
        column += all[j][i];
        CHECK(all[i][j] >= 0);
      }
      CHECK(row == Approx(1));
      CHECK(column == Approx(1));
    }
    all = product(mixing(round, ranks), all);
    spread = 0;
    for (const auto& row : all)
      for (const double x : row) spread = std::max(spread, std::abs(x - 1.0 / ranks));
  }
  CHECK(spread < 1e-6);
}

TEST_CASE("after any L rounds, every rank has a share of every other", "[cooperation]") {
  const int ranks = GENERATE(2, 3, 4, 5, 7, 8, 13, 16);
  const uint64_t first = GENERATE(0u, 1u, 2u, 3u);
  const auto rounds = uint64_t(exchange_rounds(ranks));
  Matrix all = mixing(first, ranks);
  for (uint64_t i = 1; i < rounds; ++i) all = product(mixing(first + i, ranks), all);
  const bool power_of_two = (ranks & (ranks - 1)) == 0;
  for (const auto& row : all) {
    for (const double x : row) {
      CHECK(x > 0);
      if (power_of_two) CHECK(x == Approx(1.0 / ranks));
    }
  }
}

TEST_CASE("gossip keeps the mean of the ranks' weights, and brings the weights together",
          "[cooperation]") {
  const int ranks = GENERATE(1, 2, 3, 4, 5);
  const auto results = test::on_ranks(ranks, [&](Communicator& comm) {
    Timeline timeline;
    const auto gossip = make_cooperation({.kind = CooperationOptions::Kind::Gossip, .every = 1},
                                         comm, {}, timeline);
    std::vector<float> in_last_step;
    test::FakeLearner learner(8, float(comm.rank()), true, [&](auto weights) {
      in_last_step.assign(weights.begin(), weights.end());
      return std::vector<float>(weights.size());
    });
    gossip->advance(learner, {0, 0, 41});
    return std::pair(in_last_step, learner.weights());
  });
  const float mean = float(ranks - 1) / 2;
  for (const auto& [gossiped, met] : results) {
    for (const float x : gossiped) CHECK(x == Approx(mean).margin(1e-5));
    for (const float x : met) CHECK(x == Approx(mean).margin(1e-5));
    CHECK(met == results[0].second);
  }
}

TEST_CASE("in one exchange a rank's own state counts as much as its neighbour's", "[cooperation]") {
  const int ranks = GENERATE(2, 3, 5);
  const auto after_one = test::on_ranks(ranks, [&](Communicator& comm) {
    Timeline timeline;
    const auto gossip = make_cooperation({.kind = CooperationOptions::Kind::Gossip, .every = 1},
                                         comm, {}, timeline);
    std::vector<float> in_last_step;
    test::FakeLearner learner(8, float(1 << comm.rank()), true, [&](auto weights) {
      in_last_step.assign(weights.begin(), weights.end());
      return std::vector<float>(weights.size());
    });
    gossip->advance(learner, {0, 0, 2});  // the second step begins after the first exchange
    return in_last_step;
  });
  for (int rank = 0; rank < ranks; ++rank) {
    const int from = neighbours(1, rank, ranks).from;
    const float half = float((1 << rank) + (1 << from)) / 2;
    CHECK(after_one[size_t(rank)] == std::vector<float>(8, half));
  }
}

TEST_CASE("all ranks come to the same meeting within L exchanges after any rank's call",
          "[cooperation]") {
  const int ranks = GENERATE(1, 2, 3, 4, 5, 8);
  const uint64_t every = GENERATE(1u, 3u);
  const int caller = GENERATE(0, 2, 7);
  if (caller >= ranks) return;
  const uint64_t called = 20;
  struct Result {
    Meeting meeting;
    uint64_t steps;
  };
  const auto results = test::on_ranks(ranks, [&](Communicator& comm) {
    Timeline timeline;
    const auto gossip = make_cooperation({.kind = CooperationOptions::Kind::Gossip, .every = every},
                                         comm, {}, timeline);
    test::FakeLearner* self = nullptr;
    test::FakeLearner learner(8, 1, true, [&](auto weights) {
      // The last rank also calls, some steps later.
      const bool calls = comm.rank() == caller || comm.rank() + 1 == ranks;
      const uint64_t from = comm.rank() == caller ? called : called + 2;
      if (calls && self->steps() + 1 >= from) self->report.stops = 1;
      return std::vector<float>(weights.size());
    });
    self = &learner;
    const Meeting meeting = gossip->advance(learner, {0, 0, kLong});
    return Result{meeting, learner.steps()};
  });
  for (const Result& result : results) {
    CHECK(result.meeting.done == results[0].meeting.done);
    CHECK(result.steps == result.meeting.done);
    CHECK(result.meeting.report.stops >= 1);
  }
  // The next exchange carries the call; all ranks have it after the L-th.
  const uint64_t next = (called + every - 1) / every;
  CHECK(results[0].meeting.done == (next + uint64_t(exchange_rounds(ranks)) - 1) * every);
}

TEST_CASE("no rank gets further ahead of a slow one than L exchanges", "[cooperation]") {
  const int ranks = GENERATE(2, 3, 4, 5);
  const uint64_t every = GENERATE(1u, 2u);
  const uint64_t bound = uint64_t(exchange_rounds(ranks)) * every;
  std::vector<std::atomic<uint64_t>> done(static_cast<size_t>(ranks));
  std::atomic<uint64_t> furthest = 0;
  test::on_ranks(ranks, [&](Communicator& comm) {
    Timeline timeline;
    const auto gossip = make_cooperation({.kind = CooperationOptions::Kind::Gossip, .every = every},
                                         comm, {}, timeline);
    const auto self = size_t(comm.rank());
    test::FakeLearner learner(8, 1, true, [&](auto weights) {
      uint64_t slowest = kLong;
      for (const auto& other : done) slowest = std::min(slowest, other.load());
      const uint64_t ahead = done[self] - slowest;
      for (uint64_t seen = furthest;
           seen < ahead && !furthest.compare_exchange_weak(seen, ahead);) {
      }
      if (self == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
      ++done[self];
      return std::vector<float>(weights.size());
    });
    gossip->advance(learner, {0, 0, 60});
    return 0;
  });
  CHECK(furthest <= bound);
}
