#include "base/clock.h"

#include <array>
#include <cstdio>
#include <ctime>

#include "base/error.h"

namespace dlflow {

using namespace std::chrono;

Time SystemClock::now() const { return floor<milliseconds>(system_clock::now()); }

std::string to_rfc3339(Time time) {
  const auto seconds_part = floor<seconds>(time);
  const auto millis = int((time - seconds_part).count());
  const std::time_t clock = system_clock::to_time_t(seconds_part);
  std::tm utc{};
  ::gmtime_r(&clock, &utc);
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900,
                utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, millis);
  return text.data();
}

Time from_rfc3339(const std::string& text) {
  std::tm utc{};
  int millis = 0;
  int used = 0;
  const int fields =
      std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ%n", &utc.tm_year, &utc.tm_mon,
                  &utc.tm_mday, &utc.tm_hour, &utc.tm_min, &utc.tm_sec, &millis, &used);
  if (fields != 7 || size_t(used) != text.size()) {
    throw Error(Errc::Corrupt, "'" + text + "' is not a time like 2026-11-21T08:00:00.123Z");
  }
  utc.tm_year -= 1900;
  utc.tm_mon -= 1;
  return Time(seconds(::timegm(&utc)) + milliseconds(millis));
}

}  // namespace dlflow
