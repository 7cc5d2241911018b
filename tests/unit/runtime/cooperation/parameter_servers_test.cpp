#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <utility>

#include "runtime/comm/lifeline.h"
#include "runtime/cooperation/server.h"
#include "runtime/cooperation/staleness.h"
#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"
#include "tests/unit/runtime/cooperation/fake_learner.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

constexpr uint64_t kLong = 1000000;

CooperationOptions servers(int number, std::optional<uint64_t> staleness) {
  return {
      .kind = CooperationOptions::Kind::ParameterServer, .servers = number, .staleness = staleness};
}

/// The gradient that leads from the weights to `goal`.
std::vector<float> towards(float goal, std::span<const float> weights) {
  std::vector<float> gradient(weights.begin(), weights.end());
  for (float& g : gradient) g -= goal;
  return gradient;
}

struct Trained {
  std::vector<float> weights, velocity;
};

/// Each rank's result after `steps` steps of 37 weights that start at 10, with worker r moving
/// towards r.
std::vector<Trained> train(int ranks, const CooperationOptions& options, uint64_t steps) {
  return test::on_ranks(ranks, [&](Communicator& comm) {
    Timeline timeline;
    const auto way = make_cooperation(options, comm, {}, timeline);
    test::FakeLearner learner(37, 10, false,
                              [&](auto w) { return towards(float(comm.rank()), w); });
    const int workers = num_workers(options, ranks);
    learner.rate = options.staleness == 0u ? 0.25f / float(workers) : 0.05f / float(workers);
    for (uint64_t at = 0; at < steps;) at = way->advance(learner, {0, at, steps}).done;
    return Trained{learner.weights(), learner.velocity()};
  });
}

}  // namespace

TEST_CASE("a worker more than the bound ahead of the slowest has to wait", "[cooperation]") {
  Staleness staleness(3, 2);
  staleness.begin(10);
  for (int i = 0; i < 2; ++i) staleness.step_of(0);
  CHECK(staleness.may_go_on(0));
  staleness.step_of(0);
  CHECK_FALSE(staleness.may_go_on(0));
  CHECK(staleness.may_go_on(1));
  staleness.step_of(1);
  CHECK_FALSE(staleness.may_go_on(0));  // the slowest counts, not the next one
  staleness.step_of(2);
  CHECK(staleness.may_go_on(0));
  CHECK(staleness.slowest() == 11);
  CHECK(staleness.fastest() == 13);

  Staleness free(2, std::nullopt);
  for (int i = 0; i < 100; ++i) free.step_of(1);
  CHECK(free.may_go_on(1));
}

TEST_CASE("shards are even, made of whole cache lines, and cover all weights", "[cooperation]") {
  const size_t weights = GENERATE(size_t(0), size_t(1), size_t(16), size_t(100), size_t(4096));
  const size_t number = GENERATE(size_t(1), size_t(2), size_t(3), size_t(7));
  size_t next = 0;
  for (size_t i = 0; i < number; ++i) {
    const WeightRange shard = weights_of_server(weights, i, number);
    CHECK(shard.first == next);
    CHECK(shard.count <= weights / number + 32);
    CHECK((shard.count == 0 || shard.first % 16 == 0));
    next = shard.first + shard.count;
  }
  CHECK(next == weights);
}

TEST_CASE("with one worker, servers compute the same bits as the worker alone", "[cooperation]") {
  const int number = GENERATE(1, 2, 3);
  const std::optional<uint64_t> staleness =
      GENERATE(std::optional<uint64_t>(0), std::optional<uint64_t>(3), std::optional<uint64_t>());
  test::FakeLearner alone(37, 10, true, [](auto w) { return towards(0, w); });
  alone.rate = staleness == 0u ? 0.25f : 0.05f;
  for (int i = 0; i < 25; ++i) alone.step();
  for (const Trained& rank : train(number + 1, servers(number, staleness), 25)) {
    CHECK(rank.weights == alone.weights());
    CHECK(rank.velocity == alone.velocity());
  }
}

TEST_CASE("without staleness, servers make synchronous steps in any order of arrival",
          "[cooperation]") {
  const int workers = GENERATE(2, 3, 4);
  const int number = GENERATE(1, 2);
  // The sum of the workers' gradients, in their order.
  test::FakeLearner together(37, 10, true, [&](auto w) {
    std::vector<float> sum = towards(0, w);
    for (int r = 1; r < workers; ++r) {
      const std::vector<float> one = towards(float(r), w);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += one[i];
    }
    return sum;
  });
  together.rate = 0.25f / float(workers);
  for (int i = 0; i < 25; ++i) together.step();
  for (const Trained& rank : train(workers + number, servers(number, 0), 25)) {
    CHECK(rank.weights == together.weights());
    CHECK(rank.velocity == together.velocity());
  }
}

TEST_CASE("with staleness, all ranks end with the same weights, near the common goal",
          "[cooperation]") {
  const int workers = GENERATE(2, 3, 4);
  const int number = GENERATE(1, 2);
  const std::optional<uint64_t> staleness =
      GENERATE(std::optional<uint64_t>(2), std::optional<uint64_t>());
  const auto ranks = train(workers + number, servers(number, staleness), 300);
  // With an unbounded staleness, one worker may make its last steps alone, and the weights end near
  // its goal.
  const float middle = float(workers - 1) / 2;
  const double away = 0.25 * workers + (staleness ? 0 : middle);
  for (const Trained& rank : ranks) {
    CHECK(rank.weights == ranks[0].weights);
    CHECK(rank.velocity == ranks[0].velocity);
    for (size_t i = 0; i < rank.velocity.size(); ++i) {
      CHECK(rank.weights[i] == Approx(middle).margin(away));
    }
  }
}

TEST_CASE("the fastest worker gets ahead of the slowest up to the bound, and no further",
          "[cooperation]") {
  const uint64_t bound = GENERATE(0u, 1u, 4u);
  const int number = GENERATE(1, 2);
  constexpr int kWorkers = 3;
  std::array<std::atomic<uint64_t>, kWorkers> done{};
  std::atomic<uint64_t> furthest = 0;
  test::on_ranks(kWorkers + number, [&](Communicator& comm) {
    Timeline timeline;
    const auto way = make_cooperation(servers(number, bound), comm, {}, timeline);
    const auto self = size_t(comm.rank());
    test::FakeLearner learner(64, 1, false, [&](auto w) {
      uint64_t slowest = kLong;
      for (const auto& other : done) slowest = std::min(slowest, other.load());
      const uint64_t ahead = done[self] - slowest;
      for (uint64_t seen = furthest;
           seen < ahead && !furthest.compare_exchange_weak(seen, ahead);) {
      }
      if (self == 0 && done[0] == 0) {
        // The slow worker ends its first step only after another has begun all steps that it may.
        while (done[1] <= bound) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));  // time for a step too many
      }
      ++done[self];
      return std::vector<float>(w.size());
    });
    way->advance(learner, {0, 0, 20});
    return 0;
  });
  CHECK(furthest == bound);
}

TEST_CASE("a worker's call for a meeting brings all ranks to one step", "[cooperation]") {
  const int workers = GENERATE(1, 2, 3);
  const int number = GENERATE(1, 2);
  const std::optional<uint64_t> staleness =
      GENERATE(std::optional<uint64_t>(0), std::optional<uint64_t>(3), std::optional<uint64_t>());
  const auto results = test::on_ranks(workers + number, [&](Communicator& comm) {
    Timeline timeline;
    const auto way = make_cooperation(servers(number, staleness), comm, {}, timeline);
    test::FakeLearner* self = nullptr;
    test::FakeLearner learner(64, 1, false, [&](auto w) {
      if (comm.rank() == 0 && self->steps() + 1 == 20) self->report.stops = 1;
      return std::vector<float>(w.size());
    });
    self = &learner;
    const Meeting meeting = way->advance(learner, {0, 0, kLong});
    const bool is_worker = comm.rank() < workers;
    return std::tuple(meeting.done, meeting.report.stops, is_worker ? learner.steps() : 0);
  });
  for (int rank = 0; rank < workers + number; ++rank) {
    const auto [done, stops, steps] = results[size_t(rank)];
    CHECK(done == std::get<0>(results[0]));
    CHECK(done >= 20);
    if (staleness == 0u) CHECK(done == 22);  // the step after 20 may have begun
    CHECK(stops == 1);
    if (rank < workers) CHECK(steps == done);
  }
}

TEST_CASE("a server that should stop or save brings all ranks together", "[cooperation]") {
  const int number = GENERATE(1, 2);
  const StepReport wish = GENERATE(StepReport{.stops = 1}, StepReport{.saves = 1});
  const std::optional<uint64_t> staleness =
      GENERATE(std::optional<uint64_t>(0), std::optional<uint64_t>(3), std::optional<uint64_t>());
  const auto results = test::on_ranks(2 + number, [&](Communicator& comm) {
    Timeline timeline;
    const auto way = make_cooperation(servers(number, staleness), comm, {}, timeline);
    test::FakeLearner learner(64, 1, false, [](auto w) { return std::vector<float>(w.size()); });
    if (comm.rank() == 2) learner.wish = wish;  // the first server counts
    const Meeting meeting = way->advance(learner, {0, 0, kLong});
    return std::tuple(meeting.done, meeting.report.stops, meeting.report.saves);
  });
  for (const auto& [done, stops, saves] : results) {
    CHECK(done < kLong);
    CHECK(done == std::get<0>(results[0]));
    CHECK(stops == wish.stops);
    CHECK(saves == wish.saves);
  }
}

TEST_CASE("a step without samples is not a separate update", "[cooperation]") {
  const std::optional<uint64_t> staleness =
      GENERATE(std::optional<uint64_t>(3), std::optional<uint64_t>());
  const auto updates = test::on_ranks(2, [&](Communicator& comm) {
    Timeline timeline;
    const auto way = make_cooperation(servers(1, staleness), comm, {}, timeline);
    test::FakeLearner* self = nullptr;
    test::FakeLearner learner(64, 1, false, [&](auto w) {
      self->rate = self->steps() % 2 == 0 ? 0.25f : 0.0f;
      return std::vector<float>(w.size(), 1.0f);
    });
    self = &learner;
    way->advance(learner, {0, 0, 7});
    return std::pair(learner.updates(), learner.velocity()[0]);
  });
  for (const auto& [number, velocity] : updates) {
    CHECK(number == 4);
    CHECK(velocity == 1.875f);  // 1, and half of it for each later one
  }
}

TEST_CASE("servers go on from the last meeting", "[cooperation]") {
  const auto options = servers(2, 0);
  const auto whole = train(4, options, 30);
  const auto parts = test::on_ranks(4, [&](Communicator& comm) {
    Timeline timeline;
    const auto way = make_cooperation(options, comm, {}, timeline);
    test::FakeLearner learner(37, 10, false,
                              [&](auto w) { return towards(float(comm.rank()), w); });
    learner.rate = 0.125f;
    for (uint64_t at = 0; at < 30;)
      at = way->advance(learner, {0, at, at + 7 > 30 ? 30 : at + 7}).done;
    return learner.weights();
  });
  for (const auto& weights : parts) CHECK(weights == whole[0].weights);
}

TEST_CASE("a step needs more ranks than servers", "[cooperation]") {
  CHECK(num_workers(servers(1, 0), 2) == 1);
  CHECK(num_workers({}, 3) == 3);
  CHECK_THROWS_WITH(num_workers(servers(1, 0), 1),
                    "with: 'cooperation.servers' is 1, but the step has 1 rank: none is left to "
                    "train; give it more ranks than servers (resources: ranks)");
  CHECK_THROWS_WITH(num_workers(servers(4, 0), 3),
                    Catch::Contains("is 4, but the step has 3 ranks"));
}

TEST_CASE("a server without messages gives up and names the slowest worker", "[cooperation]") {
  ThreadGroup group(2, std::chrono::milliseconds(200));
  const auto messages = test::on_ranks(group, 2, [&](Communicator& comm) -> std::string {
    Timeline timeline;
    const auto way = make_cooperation(servers(1, 0), comm, {}, timeline);
    test::FakeLearner learner(8, 1, false, [](auto w) { return std::vector<float>(w.size()); });
    if (comm.rank() == 0) return "";  // this rank has died
    try {
      way->advance(learner, {0, 0, 5});
    } catch (const Error& e) {
      return e.what();
    }
    return "done";
  });
  CHECK_THAT(messages[1], Catch::StartsWith("rank 1: rank 0 did not answer"));
}

namespace {

/// Sends the message of `worker` in a step to server 3, where it waits until the server looks.
void send_push(const Link& worker, const Push& push, const std::vector<float>& gradient) {
  (void)worker.send(std::as_bytes(std::span(&push, 1)), 3);
  (void)worker.send(std::as_bytes(std::span(gradient)), 3);
}

std::vector<Link> links_of(ThreadGroup& group, int ranks) {
  std::vector<Link> links;
  for (int rank = 0; rank < ranks; ++rank) links.emplace_back(group.communicator(rank));
  return links;
}

}  // namespace

TEST_CASE("the slowest of several workers is named", "[cooperation]") {
  const int silent = GENERATE(0, 1, 2);
  ThreadGroup group(4, std::chrono::milliseconds(20));
  const std::vector<Link> links = links_of(group, 4);
  for (int worker = 0; worker < 3; ++worker) {
    if (worker != silent) {
      send_push(links[size_t(worker)], {.rate = 1, .is_last = 1}, std::vector<float>(16));
    }
  }
  Server server(group.communicator(3), links[3], 3, std::nullopt);
  test::FakeLearner learner(16, 1, false, [](auto w) { return std::vector<float>(w.size()); });
  CHECK_THROWS_WITH(server.serve(learner, {0, 16}, {0, 0, 5}),
                    Catch::StartsWith("rank 3: rank " + std::to_string(silent) + " did not"));
  CHECK(learner.updates() == 2);
}

TEST_CASE("a server does not give up while workers push, for however long", "[cooperation]") {
  constexpr uint64_t kSteps = 3000;
  ThreadGroup group(4, std::chrono::milliseconds(1));
  const std::vector<Link> links = links_of(group, 4);
  for (uint64_t step = 1; step <= kSteps; ++step) {
    for (size_t worker = 0; worker < 3; ++worker) {
      send_push(links[worker], {.rate = 1, .is_last = step == kSteps}, std::vector<float>(16));
    }
  }
  const std::optional<uint64_t> staleness =
      GENERATE(std::optional<uint64_t>(0), std::optional<uint64_t>(2), std::optional<uint64_t>());
  Server server(group.communicator(3), links[3], 3, staleness);
  test::FakeLearner learner(16, 1, false, [](auto w) { return std::vector<float>(w.size()); });
  CHECK(server.serve(learner, {0, 16}, {0, 0, kSteps}) == kSteps);
  CHECK(learner.updates() == (staleness == 0u ? kSteps : 3 * kSteps));
}

namespace {

/// A learner whose server takes long for the first push.
class SlowAtFirst final : public test::FakeLearner {
 public:
  explicit SlowAtFirst(std::chrono::milliseconds first)
      : FakeLearner(16, 1, false, [](auto w) { return std::vector<float>(w.size()); }),
        first_(first) {}

  StepReport wishes() override {
    std::this_thread::sleep_for(std::exchange(first_, {}));
    return {};
  }

 private:
  std::chrono::milliseconds first_;
};

}  // namespace

TEST_CASE("a server measures its wait from the last push", "[cooperation]") {
  constexpr std::chrono::milliseconds kTimeout = std::chrono::seconds(4);  // for busy machines
  ThreadGroup group(4, kTimeout);
  const std::vector<Link> links = links_of(group, 4);
  Lifeline lifeline;
  group.communicator(3).set_lifeline(&lifeline);
  const std::jthread worker([&](const std::stop_token& stop) {
    for (uint32_t step = 0; step < 2; ++step) {  // each push comes while the server waits for it
      while (!lifeline.waits() || lifeline.num_waits() < step) {
        if (stop.stop_requested()) return;
        std::this_thread::yield();
      }
      send_push(links[0], {.rate = 1, .is_last = step}, std::vector<float>(16));
    }
  });
  Server server(group.communicator(3), links[3], 1, std::nullopt);
  SlowAtFirst learner(kTimeout + std::chrono::milliseconds(50));
  CHECK(server.serve(learner, {0, 16}, {0, 0, 2}) == 2);
}
