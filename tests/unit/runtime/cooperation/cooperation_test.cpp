// Tests for all ways to cooperate.
#include "runtime/cooperation/cooperation.h"

#include <cmath>
#include <string>
#include <vector>

#include "runtime/comm/lifeline.h"
#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"
#include "tests/unit/runtime/cooperation/fake_learner.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

using Kind = CooperationOptions::Kind;

const CooperationOptions kLocal{.kind = Kind::LocalSgd, .every = 2};
const CooperationOptions kGossip{.kind = Kind::Gossip, .every = 2};
const CooperationOptions kElastic{.kind = Kind::Elastic, .every = 2};
const CooperationOptions kPairwise{.kind = Kind::Pairwise, .every = 2};
const CooperationOptions kServer{.kind = Kind::ParameterServer, .servers = 1};

std::vector<float> no_gradient(std::span<const float> weights) {
  return std::vector<float>(weights.size());
}

std::vector<std::string> in_words(const CallLog& calls) {
  std::vector<std::string> words;
  for (const CallRecord& call : calls.recent().newest) words.push_back(to_string(call));
  return words;
}

}  // namespace

TEST_CASE("a report calls for a meeting if a rank stops, saves or has diverged", "[cooperation]") {
  CHECK_FALSE(StepReport{}.calls_for_meeting());
  CHECK_FALSE(StepReport{.loss = -3}.calls_for_meeting());
  CHECK(StepReport{.stops = 1}.calls_for_meeting());
  CHECK(StepReport{.saves = 1}.calls_for_meeting());
  CHECK(StepReport{.loss = INFINITY}.calls_for_meeting());
  CHECK(StepReport{.loss = NAN}.calls_for_meeting());
}

TEST_CASE("a meeting has the requests of the last step and the loss of all steps",
          "[cooperation]") {
  const auto options = GENERATE(kLocal, kElastic, kGossip, kServer);
  const auto meetings = test::on_ranks(3, [&](Communicator& comm) {
    Timeline timeline;
    const auto way = make_cooperation(options, comm, {}, timeline);
    test::FakeLearner learner(64, 1, way->role().updates, no_gradient);
    learner.report = {.loss = 2, .saves = comm.rank() == 1 ? 1.0f : 0.0f};
    return way->advance(learner, {0, 10, 12});
  });
  const float workers = options.kind == Kind::ParameterServer ? 2 : 3;
  for (const Meeting& meeting : meetings) {
    CHECK(meeting.done == 12);
    CHECK(meeting.report.loss == 2 * 2 * workers);
    CHECK(meeting.report.stops == 0);
    CHECK(meeting.report.saves == 1);
  }
}

TEST_CASE("a rank reports its sums of weights to its watch", "[cooperation]") {
  const auto [options, expected] = GENERATE(table<CooperationOptions, std::vector<std::string>>(
      {{kLocal, {"all-reduce 'weights to average' of 115 fp32"}},
       {kGossip, {"all-reduce 'weights to average' of 115 fp32"}},
       {kPairwise, {"all-reduce 'weights to average' of 115 fp32"}},
       {kServer,
        {"all-gather 'weights of the servers' of 64 fp32",
         "all-gather 'weights of the servers' of 48 fp32", "broadcast of 8 bytes from rank 1"}}}));
  const auto calls = test::on_ranks(2, [&, &way_options = options](Communicator& comm) {
    Lifeline lifeline;
    Timeline timeline;
    const auto way = make_cooperation(way_options, comm, {}, timeline);
    test::FakeLearner learner(64, 1, way->role().updates, no_gradient);
    comm.set_lifeline(&lifeline);
    way->advance(learner, {0, 0, 2});
    comm.set_lifeline(nullptr);
    return in_words(lifeline.calls());
  });
  for (const auto& words : calls) CHECK(words == expected);
}

TEST_CASE("a rank that steps alone ends when its watch raises an error", "[cooperation]") {
  const Kind kind = GENERATE(Kind::LocalSgd, Kind::Elastic, Kind::Gossip, Kind::Pairwise);
  const auto steps = test::on_ranks(2, [&](Communicator& comm) -> uint64_t {
    Lifeline lifeline;
    Timeline timeline;
    const auto way = make_cooperation({.kind = kind, .every = 1000}, comm, {}, timeline);
    test::FakeLearner* self = nullptr;
    test::FakeLearner learner(64, 1, true, [&](auto weights) {
      if (self->steps() == 4) lifeline.raise({Fault::Lost, Errc::Unavailable, "a rank died"});
      return no_gradient(weights);
    });
    self = &learner;
    comm.set_lifeline(&lifeline);
    try {
      way->advance(learner, {0, 0, 1000});
    } catch (const WatchError&) {
      comm.set_lifeline(nullptr);
      return learner.steps();
    }
    return 0;
  });
  CHECK(steps == std::vector<uint64_t>{5, 5});
}

TEST_CASE("the timeline shows the waits between ranks", "[cooperation]") {
  const auto [options, expected] = GENERATE(table<CooperationOptions, std::vector<std::string>>(
      {{kLocal, {"average"}},
       {kElastic, {"exchange", "exchange", "average"}},
       {kGossip, {"exchange", "average"}},
       {kServer, {"push and pull", "push and pull", "push and pull", "gather weights"}}}));
  const auto names = test::on_ranks(2, [&, &way_options = options](Communicator& comm) {
    Timeline timeline;
    timeline.start();
    const auto way = make_cooperation(way_options, comm, {}, timeline);
    test::FakeLearner learner(64, 1, way->role().updates, no_gradient);
    way->advance(learner, {0, 1, 4});
    std::vector<std::string> rows;
    for (const Timeline::Span& span : timeline.spans()) {
      if (span.row == Timeline::Row::Waiting) rows.push_back(span.name);
    }
    return rows;
  });
  CHECK(names[0] == expected);
}
