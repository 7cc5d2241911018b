#include "runtime/cooperation/averaging.h"
#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"
#include "tests/unit/runtime/cooperation/fake_learner.h"

using namespace dlflow;
using namespace dlflow::runtime;

TEST_CASE("averaging leaves the mean of all ranks' weights, with the same bits, on each",
          "[cooperation]") {
  const int ranks = GENERATE(1, 2, 3, 4, 5);
  const int ranks_per_node = GENERATE(0, 1, 2);
  const size_t size = GENERATE(size_t(0), size_t(1), size_t(1000));
  struct Result {
    std::vector<float> first, second;
    StepReport report;
  };
  ThreadGroup group(ranks, std::chrono::seconds(60), ranks_per_node);
  const auto results = test::on_ranks(group, ranks, [&](Communicator& comm) {
    Averaging averaging(comm, {});
    Result result{std::vector<float>(size), std::vector<float>(7, 0.1f), {}};
    for (int round = 0; round < 2; ++round) {
      for (size_t i = 0; i < size; ++i) result.first[i] = float(i) * float(comm.rank() + 1);
      const std::vector<std::span<float>> state = {result.first, result.second};
      result.report = averaging.average(state, {1, float(comm.rank()), 2});
    }
    return result;
  });
  for (const Result& result : results) {
    for (size_t i = 0; i < size; ++i) {
      CHECK(result.first[i] == float(i) * float(ranks * (ranks + 1) / 2) / float(ranks));
    }
    CHECK(result.second == results[0].second);
    CHECK(result.second[0] == Approx(0.1f));
    CHECK(result.report.loss == float(ranks));
    CHECK(result.report.stops == float(ranks * (ranks - 1) / 2));
    CHECK(result.report.saves == 2 * float(ranks));
  }
}

namespace {

/// The number of steps of a rank before each meeting, in an epoch of 10 steps from `done` on.
std::vector<uint64_t> meetings(const CooperationOptions& options, uint64_t epoch, uint64_t done) {
  const auto results = test::on_ranks(3, [&](Communicator& comm) {
    Timeline timeline;
    const auto local = make_cooperation(options, comm, {}, timeline);
    test::FakeLearner learner(8, 1, true, [](auto weights) {
      return std::vector<float>(weights.begin(), weights.end());
    });
    std::vector<uint64_t> met;
    for (uint64_t at = done; at < 10;) {
      at = local->advance(learner, {epoch, at, 10}).done;
      met.push_back(at);
    }
    return met;
  });
  CHECK(results[1] == results[0]);
  CHECK(results[2] == results[0]);
  return results[0];
}

}  // namespace

TEST_CASE("local SGD averages every k steps of the run and at the limit", "[cooperation]") {
  CooperationOptions options{.kind = CooperationOptions::Kind::LocalSgd, .every = 4};
  CHECK(meetings(options, 0, 0) == std::vector<uint64_t>{4, 8, 10});
  CHECK(meetings(options, 0, 6) == std::vector<uint64_t>{8, 10});
  options.every = 100;
  CHECK(meetings(options, 0, 0) == std::vector<uint64_t>{10});
}

TEST_CASE("local SGD averages after every step in its synchronous epochs", "[cooperation]") {
  const CooperationOptions options{
      .kind = CooperationOptions::Kind::LocalSgd, .every = 4, .synchronous_epochs = 1};
  CHECK(meetings(options, 0, 7) == std::vector<uint64_t>{8, 9, 10});
  CHECK(meetings(options, 1, 7) == std::vector<uint64_t>{8, 10});
}

TEST_CASE("local SGD that averages after every step is synchronous", "[cooperation]") {
  // The loss of rank r is (w - r)^2 / 2; synchronous steps go down the mean of the gradients.
  const int ranks = 4;
  test::FakeLearner synchronous(8, 10, true, [](auto weights) {
    std::vector<float> gradient(weights.begin(), weights.end());
    for (float& g : gradient) g -= 1.5f;
    return gradient;
  });
  for (int i = 0; i < 12; ++i) synchronous.step();

  const auto results = test::on_ranks(ranks, [&](Communicator& comm) {
    Timeline timeline;
    const auto local = make_cooperation({.kind = CooperationOptions::Kind::LocalSgd, .every = 1},
                                        comm, {}, timeline);
    test::FakeLearner learner(8, 10, true, [&](auto weights) {
      std::vector<float> gradient(weights.begin(), weights.end());
      for (float& g : gradient) g -= float(comm.rank());
      return gradient;
    });
    for (uint64_t at = 0; at < 12;) at = local->advance(learner, {0, at, 12}).done;
    return std::pair(learner.weights(), learner.velocity());
  });
  for (const auto& [weights, velocity] : results) {
    for (size_t i = 0; i < weights.size(); ++i) {
      CHECK(weights[i] == Approx(synchronous.weights()[i]).epsilon(1e-5));
    }
    for (size_t i = 0; i < velocity.size(); ++i) {
      CHECK(velocity[i] == Approx(synchronous.velocity()[i]).epsilon(1e-5));
    }
  }
}
