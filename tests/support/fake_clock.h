#pragma once

#include "base/clock.h"

namespace dlflow::test {

/// Time that stands still until a test, or FakeBackend::wait, advances it.
class FakeClock : public Clock {
 public:
  Time now() const override { return now_; }
  void sleep_for(std::chrono::milliseconds time) const override { now_ += time; }
  void advance(std::chrono::milliseconds by) { now_ += by; }

 private:
  mutable Time now_ = from_rfc3339("2026-11-21T08:00:00.000Z");
};

}  // namespace dlflow::test
