#include "runtime/comm/patience.h"

#include <algorithm>
#include <vector>

#include "runtime/comm/thread_communicator.h"
#include "tests/support/catch.h"

using namespace dlflow::runtime;
using namespace std::chrono_literals;

namespace {

/// A core with a clock that the test advances.
class FakeCore final : public Core {
 public:
  /// Advances the time while the thread, or another one on its core, computes.
  void run(Duration duration) {
    now_ += duration;
    used_ += duration;
  }
  void take(Duration duration) { now_ += duration; }

  /// How long others keep the core when it is yielded to them.
  Duration yield_takes = 1us;

  int yields = 0;
  std::vector<Duration> sleeps{};
  std::vector<Time> slept_at{};

  Time now() override { return now_; }
  Duration used() override { return used_; }
  void yield() override {
    ++yields;
    take(yield_takes);
  }
  void sleep(Duration duration) override {
    slept_at.push_back(now_);
    sleeps.push_back(duration);
    take(duration + 30us);
  }

 private:
  Time now_{1h};
  Duration used_{0};
};

/// A single rank with a fake core.
struct Waiter {
  ThreadGroup group{1};
  Communicator& comm = group.communicator(0);
  FakeCore core{};

  /// Waits until `duration` is over, with a look every 50 ns. Returns the time taken, which is
  /// longer if the last look is late.
  Core::Duration wait_for(Core::Duration duration) {
    const Core::Time start = core.now();
    for (Patience patience(comm, core); core.now() - start < duration; core.run(50ns)) {
      REQUIRE(patience.wait());
    }
    return core.now() - start;
  }

  /// Checks that each sleep of a wait since `start` was longer than the one before, and that part
  /// of the time waited, within 5 us and 1 ms.
  void check_sleeps(Core::Time start, int part) const {
    CHECK(!core.sleeps.empty());
    CHECK(std::ranges::is_sorted(core.sleeps));
    for (size_t i = 0; i < core.sleeps.size(); ++i) {
      const Core::Duration waited = core.slept_at[i] - start;
      CHECK(core.sleeps[i] <= std::max<Core::Duration>(5us, waited / part));
      // The wait starts to count after some spinning.
      CHECK(core.sleeps[i] >= std::min<Core::Duration>(1ms, (waited - 250us) / part));
    }
  }

  /// Waits while another thread has the core for 3 ms.
  void wait_without_core() {
    Patience patience(comm, core);
    for (int i = 0; i < 130; ++i, core.run(50ns)) {
      if (i == 100) core.take(3ms);
      REQUIRE(patience.wait());
    }
  }
};

}  // namespace

TEST_CASE("a rank on a core of its own keeps it for a millisecond", "[patience]") {
  Waiter waiter;
  CHECK(waiter.wait_for(200us) < 201us);
  CHECK(waiter.core.yields == 0);
  CHECK(waiter.wait_for(1ms) < 1002us);
  CHECK(waiter.core.yields > 0);
  CHECK(waiter.core.sleeps.empty());
}

TEST_CASE("a longer wait sleeps for a 32nd of its time, since the peer may need the core",
          "[patience]") {
  Waiter waiter;
  const Core::Time start = waiter.core.now();
  waiter.wait_for(100ms);
  waiter.check_sleeps(start, 32);
  CHECK(waiter.core.sleeps.back() == 1ms);
}

TEST_CASE("a wait of seconds sleeps for a 128th of its time, since many may wait", "[patience]") {
  Waiter waiter;
  waiter.wait_for(1s);
  CHECK(waiter.core.sleeps.back() > 7ms);
  CHECK(waiter.core.sleeps.back() < 8ms);
  waiter.wait_for(10s);
  CHECK(waiter.core.sleeps.back() == 50ms);
}

TEST_CASE(
    "a rank whose core was taken yields early and then sleeps, for at most an eighth of the wait",
    "[patience]") {
  Waiter waiter;
  waiter.core.run(1s);  // earlier computation does not count as lost time
  waiter.wait_without_core();
  waiter.core.yields = 0;
  waiter.core.sleeps.clear();
  waiter.core.slept_at.clear();
  const Core::Time start = waiter.core.now();
  waiter.wait_for(15ms);
  CHECK(waiter.core.yields == 20);
  CHECK(waiter.core.slept_at.front() - start < 50us);
  waiter.check_sleeps(start, 8);
  CHECK(waiter.core.sleeps.back() == 1ms);
}

TEST_CASE("a late return from yield shows a contended core, an early one does not", "[patience]") {
  Waiter waiter;
  waiter.core.yield_takes = 100us;
  waiter.wait_for(800us);
  waiter.wait_for(800us);
  CHECK(waiter.core.sleeps.empty());
  waiter.core.yield_takes = 3ms;
  waiter.wait_for(1ms);
  waiter.core.yield_takes = 1us;
  waiter.wait_for(800us);
  CHECK(!waiter.core.sleeps.empty());
}

TEST_CASE("a long poll that moves a large message does not count as contention", "[patience]") {
  Waiter waiter;
  {
    Patience patience(waiter.comm, waiter.core);
    for (int i = 0; i < 1000; ++i) {
      waiter.core.run(1ms);
      REQUIRE(patience.wait());
    }
  }
  waiter.wait_for(800us);
  CHECK(waiter.core.sleeps.empty());
}

TEST_CASE("work between waits, and a rank's own sleep, do not count as contention", "[patience]") {
  Waiter waiter;
  waiter.wait_for(10us);
  waiter.core.take(1s);  // the rank reads a file
  waiter.wait_for(100ms);
  const size_t sleeps = waiter.core.sleeps.size();
  CHECK(sleeps > 0);
  waiter.wait_for(800us);
  CHECK(waiter.core.sleeps.size() == sleeps);
}

TEST_CASE("an answer within the first microseconds costs neither a yield nor a sleep on any core",
          "[patience]") {
  Waiter waiter;
  waiter.wait_without_core();
  waiter.core.yields = 0;
  for (int i = 0; i < 100; ++i) waiter.wait_for(3us);
  CHECK(waiter.core.yields == 0);
  CHECK(waiter.core.sleeps.empty());
}

TEST_CASE("progress restarts the wait", "[patience]") {
  Waiter waiter;
  waiter.wait_without_core();
  Patience patience(waiter.comm, waiter.core);
  const auto looks_until_sleep = [&] {
    const size_t before = waiter.core.sleeps.size();
    int looks = 0;
    for (; waiter.core.sleeps.size() == before; ++looks) REQUIRE(patience.wait());
    return looks;
  };
  const int looks = looks_until_sleep();
  CHECK(looks_until_sleep() == 1);
  patience.restart();
  CHECK(looks_until_sleep() == looks);
}

TEST_CASE("a wait ends after the communicator's timeout even if it sleeps", "[patience]") {
  const bool contended = GENERATE(false, true);
  ThreadGroup group(1, 50ms);
  FakeCore core;
  if (contended) group.communicator(0).contention().see(core.now());
  Patience patience(group.communicator(0), core);
  const Core::Time start = core.now();
  while (patience.wait()) core.run(50ns);
  CHECK(core.now() - start >= 50ms);
  CHECK(core.now() - start < 60ms);
  CHECK(!core.sleeps.empty());
}

TEST_CASE("contention is assumed for 20 ms, and for longer each time it returns soon",
          "[patience]") {
  Contention contention;
  Core::Time now{1h};
  CHECK(!contention.believed(now));
  const auto believed_for = [&] {
    Core::Duration duration = 0ms;
    for (contention.see(now); contention.believed(now + duration);) duration += 1ms;
    now += duration;
    return duration;
  };
  CHECK(believed_for() == 20ms);
  CHECK(believed_for() == 40ms);
  for (int i = 0; i < 10; ++i) believed_for();
  CHECK(believed_for() == 1s);
  now += 2s;
  CHECK(believed_for() == 20ms);
}
