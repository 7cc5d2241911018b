#include "runtime/cooperation/cooperation.h"
#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"
#include "tests/unit/runtime/cooperation/fake_learner.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

/// The weights of each rank, with one value for all, after 8 steps with the loss (w - rank)^2 / 2.
std::vector<std::vector<float>> trained(const CooperationOptions& options,
                                        float stops_after = 100) {
  return test::on_ranks(3, [&](Communicator& comm) {
    Timeline timeline;
    const auto elastic = make_cooperation(options, comm, {}, timeline);
    test::FakeLearner* self = nullptr;
    test::FakeLearner learner(8, 10, true, [&](auto weights) {
      self->report.stops = float(self->steps()) >= stops_after && comm.rank() == 1 ? 1 : 0;
      std::vector<float> gradient(weights.begin(), weights.end());
      for (float& g : gradient) g -= float(comm.rank());
      return gradient;
    });
    self = &learner;
    const Meeting meeting = elastic->advance(learner, {0, 0, 8});
    std::vector<float> result = {float(meeting.done)};
    result.insert(result.end(), learner.weights().begin(), learner.weights().end());
    result.insert(result.end(), learner.velocity().begin(), learner.velocity().end());
    return result;
  });
}

}  // namespace

TEST_CASE("weights and the center move towards each other by the published formula",
          "[cooperation]") {
  // Two ranks that move only by the exchange: gradients are zero, and weights start different.
  const auto results = test::on_ranks(2, [](Communicator& comm) {
    Timeline timeline;
    const auto elastic = make_cooperation(
        {.kind = CooperationOptions::Kind::Elastic, .every = 1, .rate = 0.5}, comm, {}, timeline);
    test::FakeLearner* self = nullptr;
    test::FakeLearner learner(1, 10, true, [&](auto weights) {
      // Sets the weights to those wanted before the exchange of each step.
      self->state().front()[0] = self->steps() == 0 ? 1 + 2 * float(comm.rank()) : weights[0];
      return std::vector<float>(1, 0.0f);
    });
    self = &learner;
    self->state().front()[0] = 0;
    elastic->advance(learner, {0, 0, 2});
    return learner.weights()[0];
  });
  // The center is 0, and the ranks are at 1 and 3: the center moves to 1, and the ranks to 0.75 and
  // 2.25. Then the center moves to 1 + 0.5 (1.5 - 1).
  CHECK(results == std::vector<float>{1.25f, 1.25f});
}

TEST_CASE("elastic averaging ends with the same bits on all ranks, near the mean of their aims",
          "[cooperation]") {
  const uint64_t every = GENERATE(uint64_t(1), uint64_t(3), uint64_t(100));
  const auto results = trained({.kind = CooperationOptions::Kind::Elastic, .every = every});
  CHECK(results[1] == results[0]);
  CHECK(results[2] == results[0]);
  CHECK(results[0][0] == 8);
  CHECK(results[0][1] > 0);
  CHECK(results[0][1] < 3);
}

TEST_CASE("elastic averaging stops after the next exchange", "[cooperation]") {
  const auto results = trained({.kind = CooperationOptions::Kind::Elastic, .every = 3}, 3);
  for (const auto& result : results) CHECK(result[0] == 6);
}
