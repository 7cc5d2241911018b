#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

/// Durations and sizes as people write and read them.
namespace dlflow {

/// "90s", "20m", "4h", "1.5h", "2d", "1h30m", "04:00:00" or "1-12:00:00" (SLURM's spelling).
/// Throws Error{InvalidInput}: "'20 parsecs' is not a duration; write 90s, 20m, 4h or 1-12:00:00".
/// "1:30" is refused as ambiguous.
std::chrono::seconds parse_duration(std::string_view text);

/// The text to write instead of "1:30", which SLURM reads as minutes and seconds and most people as
/// hours and minutes; empty for anything else.
std::string ambiguous_duration(std::string_view text);

/// The message about a duration out of range; empty for anything else.
std::string long_duration(std::string_view text);

/// "512MiB", "2GiB", "1.5 GB", "16g", "4096"; a number without a unit is bytes. Throws
/// Error{InvalidInput}.
uint64_t parse_size(std::string_view text);

/// Like a stopwatch: 0:02, 12:05, 1:02:10, 2-03:00:00.
std::string format_duration(std::chrono::milliseconds duration);

/// For people: 34 s, 4 min, 2 h, 1 d.
std::string format_age(std::chrono::milliseconds age);

/// For people: 812 B, 29.5 MiB, 1.2 GiB.
std::string format_size(uint64_t bytes);

/// `value` in the printf format `format`, such as "%.3f"; at most 39 characters.
std::string print_number(const char* format, double value);

/// For people: 3980 -> "3,980".
std::string format_count(uint64_t count);

/// "1 job", "2 jobs"
std::string plural(uint64_t count, const std::string& thing);

}  // namespace dlflow
