#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <thread>

#include "runtime/cooperation/cooperation.h"
#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"
#include "tests/unit/runtime/cooperation/fake_learner.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

const CooperationOptions kEvery{.kind = CooperationOptions::Kind::Pairwise, .every = 1};
constexpr uint64_t kFarAway = 1000000;

struct PairsEnd {
  Meeting meeting;
  uint64_t steps;
  std::vector<float> before;  // the weights before the last step
  std::vector<float> weights;
};

/// Trains on `ranks` ranks; rank r starts with weights of r. `step` is called in each step, and
/// `gradient` gives all elements of the gradient.
std::vector<PairsEnd> train_in_pairs(int ranks, const Stretch& stretch,
                                     const std::function<void(int, test::FakeLearner&)>& step,
                                     const std::function<float(int)>& gradient) {
  return test::on_ranks(ranks, [&](Communicator& comm) {
    Timeline timeline;
    const auto pairwise = make_cooperation(kEvery, comm, {}, timeline);
    test::FakeLearner* self = nullptr;
    std::vector<float> before;
    test::FakeLearner learner(8, float(comm.rank()), true, [&](auto weights) {
      before.assign(weights.begin(), weights.end());
      step(comm.rank(), *self);
      return std::vector<float>(weights.size(), gradient(comm.rank()));
    });
    self = &learner;
    const Meeting meeting = pairwise->advance(learner, stretch);
    return PairsEnd{meeting, learner.steps(), before, learner.weights()};
  });
}

float no_gradient_of(int) { return 0; }

}  // namespace

TEST_CASE("pairwise averaging draws ranks to their mean, and keeps the mean", "[cooperation]") {
  const int ranks = GENERATE(1, 2, 3, 4, 5);
  std::barrier together(ranks);
  const auto ends = train_in_pairs(
      ranks, {0, 0, 80}, [&](int, auto&) { together.arrive_and_wait(); }, no_gradient_of);
  const float mean = float(ranks - 1) / 2;
  for (size_t rank = 0; rank < ends.size(); ++rank) {
    CHECK(ends[rank].meeting.done == 80);
    for (size_t i = 0; i < 6; ++i) CHECK(ends[rank].before[i] == Approx(mean).margin(0.01));
    for (size_t i = 6; i < 8; ++i) CHECK(ends[rank].before[i] == float(rank));  // statistics
    for (const float x : ends[rank].weights) CHECK(x == Approx(mean).margin(1e-5));
    CHECK(ends[rank].weights == ends[0].weights);
  }
}

TEST_CASE("pairwise averaging keeps the sum of all updates at any pace", "[cooperation]") {
  const int ranks = GENERATE(2, 3, 4);
  const int slow = GENERATE(0, 1);
  const auto gradient = [](int rank) { return float(rank + 1); };
  const auto ends = train_in_pairs(
      ranks, {0, 0, 40},
      [&](int rank, auto&) {
        if (rank == slow) std::this_thread::sleep_for(std::chrono::microseconds(300));
      },
      gradient);
  float mean = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    test::FakeLearner alone(8, float(rank), true, [&](auto weights) {
      return std::vector<float>(weights.size(), gradient(rank));
    });
    for (int step = 0; step < 40; ++step) alone.step();
    mean += alone.weights()[0] / float(ranks);
  }
  for (const PairsEnd& end : ends) CHECK(end.weights[0] == Approx(mean).epsilon(1e-4));
}

TEST_CASE("in pairwise averaging no rank waits for a slow one before the meeting",
          "[cooperation]") {
  const int ranks = GENERATE(2, 3, 4);
  const int slow = GENERATE(0, 1);
  std::atomic<int> others_done = 0;
  bool all_done = false;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(8);
  train_in_pairs(
      ranks, {0, 0, 50},
      [&](int rank, auto& learner) {
        if (rank != slow && learner.steps() == 49) ++others_done;
        if (rank != slow || learner.steps() != 1) return;
        while (others_done < ranks - 1 && std::chrono::steady_clock::now() < deadline) {
          std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
        all_done = others_done == ranks - 1;
      },
      no_gradient_of);
  CHECK(all_done);
}

TEST_CASE("in pairwise averaging a call for a meeting brings all ranks to one step soon",
          "[cooperation]") {
  const int ranks = GENERATE(1, 2, 3, 4, 5);
  const int caller = GENERATE(0, 1, 4);
  if (caller >= ranks) return;
  const auto ends = train_in_pairs(
      ranks, {0, 7, kFarAway},
      [&](int rank, test::FakeLearner& self) {
        std::this_thread::sleep_for(std::chrono::microseconds(100 + 20 * rank));
        self.report = {.loss = 1, .stops = rank == caller && self.steps() > 20 ? 1.0f : 0.0f};
      },
      no_gradient_of);
  for (const PairsEnd& end : ends) {
    CHECK(end.meeting.done == ends[0].meeting.done);
    CHECK(end.steps == end.meeting.done - 7);
    CHECK(end.meeting.report.stops == 1);
    CHECK(end.meeting.report.loss == float(ranks) * float(end.steps));
  }
  CHECK(ends[0].meeting.done < kFarAway);
}

TEST_CASE("pairwise averaging goes on after a meeting", "[cooperation]") {
  const int ranks = GENERATE(2, 3, 4);
  const auto done = test::on_ranks(ranks, [](Communicator& comm) {
    Timeline timeline;
    const auto pairwise = make_cooperation(kEvery, comm, {}, timeline);
    test::FakeLearner learner(8, float(comm.rank()), true,
                              [](auto weights) { return std::vector<float>(weights.size()); });
    for (uint64_t first = 0; first < 30; first += 3) {
      pairwise->advance(learner, {0, first, first + 3});
    }
    return learner.steps();
  });
  for (const uint64_t steps : done) CHECK(steps == 30);
}
