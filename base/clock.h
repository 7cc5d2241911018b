#pragma once

#include <chrono>
#include <cstdint>
#include <string>

/// Time as a value that tests can control.
namespace dlflow {

/// Wall-clock time, to the millisecond.
using Time = std::chrono::sys_time<std::chrono::milliseconds>;

/// The current time. Implementations: SystemClock, tests/support/FakeClock.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time now() const = 0;
  virtual void sleep_for(std::chrono::milliseconds time) const = 0;
};

class SystemClock : public Clock {
 public:
  Time now() const override;
  void sleep_for(std::chrono::milliseconds time) const override;
};

/// Milliseconds since 1970.
inline int64_t to_ms(Time time) { return time.time_since_epoch().count(); }
inline Time from_ms(int64_t ms) { return Time(std::chrono::milliseconds(ms)); }

/// RFC 3339 in UTC with milliseconds: 2026-11-21T08:00:00.123Z
std::string to_rfc3339(Time time);

/// The inverse of to_rfc3339. Throws Error{Corrupt} for anything else.
Time from_rfc3339(const std::string& text);

}  // namespace dlflow
