#include "runtime/watch/pulse.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace dlflow::runtime {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(100);

}  // namespace

PulseTaker::PulseTaker(const Lifeline& lifeline) : lifeline_(lifeline) {
  if (const int error = ::pthread_getcpuclockid(::pthread_self(), &clock_); error != 0) {
    throw_errno("the clock of a thread", error);
  }
}

bool PulseTaker::computes(Time now) {
  const auto elapsed = now - measured_;
  if (elapsed < kInterval) return false;
  timespec clock{};
  ::clock_gettime(clock_, &clock);
  const auto used = std::chrono::seconds(clock.tv_sec) + std::chrono::nanoseconds(clock.tv_nsec);
  const bool busy = used - used_ >= elapsed / 50;
  measured_ = now;
  used_ = used;
  return busy;
}

Pulse PulseTaker::take(Time now) {
  const CallLog::Head head = lifeline_.calls().head();
  Pulse pulse;
  pulse.calls = head.count;
  pulse.hash = head.hash;
  pulse.waits = lifeline_.waits();
  if (const char* const activity = lifeline_.activity()) {
    std::strncpy(pulse.activity.data(), activity, pulse.activity.size() - 1);
  }
  uint64_t moves = head.count + lifeline_.num_waits();
  if (const auto* const arrivals = lifeline_.arrivals()) {
    pulse.awaits = true;
    moves += *arrivals;
  }
  // Time spent waiting does not count: waiting polls.
  if (moves != moves_ || (computes(now) && !pulse.waits)) ++progress_;
  moves_ = moves;
  pulse.progress = progress_;
  return pulse;
}

}  // namespace dlflow::runtime
