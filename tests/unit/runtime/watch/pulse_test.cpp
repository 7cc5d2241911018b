#include "runtime/watch/pulse.h"

#include <ctime>

#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace std::chrono_literals;

namespace {

std::chrono::nanoseconds processor_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

/// Computes until this thread has used `time` of a processor.
void compute(std::chrono::nanoseconds time) {
  for (const auto end = processor_time() + time; processor_time() < end;) {
  }
}

/// The pulse of this thread, with a clock that the test advances.
struct Patient {
  /// Whether the thread made progress since the last look, `time` ago.
  bool moves_after(std::chrono::milliseconds time) {
    now += time;
    pulse = taker.take(now);
    return std::exchange(last, pulse.progress) != pulse.progress;
  }

  Lifeline lifeline;
  PulseTaker taker{lifeline};
  PulseTaker::Time now = std::chrono::steady_clock::now();
  Pulse pulse;
  uint64_t last = 0;
};

}  // namespace

TEST_CASE("a call and the end of a wait are progress", "[watch]") {
  Patient patient;
  patient.moves_after(0ms);
  CHECK_FALSE(patient.moves_after(1ms));
  patient.lifeline.submit({"barrier"});
  CHECK(patient.moves_after(1ms));
  CHECK(patient.pulse.calls == 1);
  CHECK(patient.pulse.hash == patient.lifeline.calls().head().hash);
  CHECK_FALSE(patient.moves_after(1ms));
  patient.lifeline.begin_wait();
  CHECK_FALSE(patient.moves_after(1ms));
  CHECK(patient.pulse.waits);
  patient.lifeline.end_wait();
  CHECK(patient.moves_after(1ms));
  CHECK_FALSE(patient.pulse.waits);
  patient.lifeline.submit({"barrier"});
  patient.lifeline.end_wait();
  CHECK(patient.moves_after(1ms));  // equal progress of both must not cancel
}

TEST_CASE("a fiftieth of the time on a processor is progress, except during a wait", "[watch]") {
  Patient patient;
  patient.moves_after(1000ms);
  compute(20ms);
  CHECK_FALSE(patient.moves_after(99ms));  // too short to tell
  CHECK(patient.moves_after(901ms));
  CHECK_FALSE(patient.moves_after(1h));  // the processor time was negligible
  patient.lifeline.begin_wait();
  compute(20ms);
  CHECK_FALSE(patient.moves_after(1000ms));  // it polls
  patient.lifeline.end_wait();
  CHECK(patient.moves_after(1h));
}

TEST_CASE("a pulse has a truncated activity, and progress of its wait", "[watch]") {
  Patient patient;
  patient.moves_after(0ms);
  CHECK(patient.pulse.activity[0] == '\0');
  CHECK_FALSE(patient.pulse.awaits);
  patient.lifeline.set_activity("saves a checkpoint");
  CHECK_FALSE(patient.moves_after(1ms));
  CHECK(std::string(patient.pulse.activity.data()) == "saves a checkpoint");
  patient.lifeline.set_activity("does something whose name takes more than 39 letters");
  patient.moves_after(1ms);
  CHECK(std::string(patient.pulse.activity.data()) == "does something whose name takes more th");
  std::atomic<uint64_t> arrivals{0};
  patient.lifeline.set_activity("waits for data", &arrivals);
  CHECK_FALSE(patient.moves_after(1ms));
  CHECK(patient.pulse.awaits);
  ++arrivals;
  CHECK(patient.moves_after(1ms));
  CHECK_FALSE(patient.moves_after(1ms));
  ++arrivals;
  patient.lifeline.submit({"barrier"});
  CHECK(patient.moves_after(1ms));  // equal progress of both must not cancel
}
