#include "base/clock.h"

#include <array>
#include <cstdio>
#include <thread>

#include "base/error.h"

namespace dlflow {

using namespace std::chrono;

void SystemClock::sleep_for(std::chrono::milliseconds time) const {
  std::this_thread::sleep_for(time);
}

Time SystemClock::now() const { return floor<milliseconds>(system_clock::now()); }

std::string to_rfc3339(Time time) {
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(time - day);
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ", int(date.year()),
                unsigned(date.month()), unsigned(date.day()), int(clock.hours().count()),
                int(clock.minutes().count()), int(clock.seconds().count()),
                int(clock.subseconds().count()));
  return text.data();
}

Time from_rfc3339(const std::string& text) {
  int year_number = 0, hour = 0, minute = 0, second = 0, millis = 0, used = 0;
  unsigned month_number = 0, day_number = 0;
  const int fields =
      std::sscanf(text.c_str(), "%4d-%2u-%2uT%2d:%2d:%2d.%3dZ%n", &year_number, &month_number,
                  &day_number, &hour, &minute, &second, &millis, &used);
  const year_month_day date{year(year_number), month(month_number), day(day_number)};
  if (fields != 7 || size_t(used) != text.size() || !date.ok()) {
    throw Error(Errc::Corrupt, "'" + text + "' is not a time like 2026-11-21T08:00:00.123Z");
  }
  return sys_days(date) + hours(hour) + minutes(minute) + seconds(second) + milliseconds(millis);
}

}  // namespace dlflow
