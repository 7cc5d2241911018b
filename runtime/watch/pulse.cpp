#include "runtime/watch/pulse.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace dlflow::runtime {

PulseTaker::PulseTaker(const Lifeline& lifeline) : lifeline_(lifeline) {
  if (const int error = ::pthread_getcpuclockid(::pthread_self(), &clock_); error != 0) {
    throw_errno("the clock of a thread", error);
  }
}

Pulse PulseTaker::take() {
  const CallLog::Head head = lifeline_.calls().head();
  Pulse pulse;
  pulse.calls = head.count;
  pulse.hash = head.hash;
  pulse.waits = lifeline_.waits();
  if (const char* const activity = lifeline_.activity()) {
    std::strncpy(pulse.activity.data(), activity, pulse.activity.size() - 1);
  }
  timespec used{};
  ::clock_gettime(clock_, &used);
  const int64_t used_ms = used.tv_sec * 1000 + used.tv_nsec / 1000000;
  const uint64_t moves = head.count + lifeline_.num_waits();
  // Waiting takes processor time, too: it polls.
  if (moves != moves_ || (!pulse.waits && used_ms > used_ms_)) ++progress_;
  moves_ = moves;
  used_ms_ = used_ms;
  pulse.progress = progress_;
  return pulse;
}

}  // namespace dlflow::runtime
