#include "base/units.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace dlflow {
namespace {

using std::chrono::seconds;

constexpr int64_t kMaxSeconds = int64_t{1000} * 365 * 86400;
constexpr int64_t kTooLong = kMaxSeconds + 1;

std::optional<int64_t> parse_integer(std::string_view digits) {
  const auto value = number_from<int64_t>(digits);
  return value && *value >= 0 ? value : std::nullopt;
}

/// [D-]H:M:S, D-H:M or D-H
std::optional<int64_t> parse_clock(std::string_view text) {
  int64_t days = 0;
  const size_t dash = text.find('-');
  if (dash != std::string_view::npos) {
    const auto value = parse_integer(text.substr(0, dash));
    if (!value) return std::nullopt;
    if (*value > kMaxSeconds / 86400) return kTooLong;
    days = *value;
    text.remove_prefix(dash + 1);
  }
  std::vector<int64_t> fields;
  for (const std::string& field : split(text, ':')) {
    const auto value = parse_integer(field);
    if (!value) return std::nullopt;
    if (*value > kMaxSeconds) return kTooLong;
    fields.push_back(*value);
  }
  if (fields.size() > 3) return std::nullopt;
  fields.resize(3, 0);  // SLURM reads D-H, D-H:M and D-H:M:S from the left
  return days * 86400 + fields[0] * 3600 + fields[1] * 60 + fields[2];
}

/// 1h30m, 90s, 1.5h
std::optional<int64_t> parse_units(std::string_view text) {
  constexpr std::array<std::pair<char, int64_t>, 4> kUnits = {
      {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}}};
  double total = 0;
  size_t next_unit = 0;  // each unit once, larger ones first
  while (!text.empty()) {
    const size_t digits = text.find_first_not_of("0123456789.");
    if (digits == 0 || digits == std::string_view::npos) return std::nullopt;
    const auto value = number_from<double>(text.substr(0, digits));
    while (next_unit < kUnits.size() && kUnits[next_unit].first != text[digits]) ++next_unit;
    if (!value || next_unit == kUnits.size()) return std::nullopt;
    total += *value * double(kUnits[next_unit].second);
    ++next_unit;
    text.remove_prefix(digits + 1);
  }
  return total <= double(kMaxSeconds) ? std::llround(total) : kTooLong;
}

std::optional<int64_t> value_of(std::string_view word) {
  if (word.empty()) return std::nullopt;
  return word.find_first_of(":-") == word.npos ? parse_units(word) : parse_clock(word);
}

/// The number of bytes of a unit, in either case; 0 for other text. SLURM's units (16g, 16G) count
/// in 1024, like GiB; GB counts in 1000.
double bytes_of_unit(std::string unit) {
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return std::tolower(c); });
  if (unit.empty() || unit == "b") return 1;
  const size_t power = std::string_view("kmgt").find(unit[0]) + 1;
  const std::string_view rest = std::string_view(unit).substr(1);
  if (power == 0 || (!rest.empty() && rest != "b" && rest != "i" && rest != "ib")) return 0;
  return std::pow(rest == "b" ? 1000 : 1024, double(power));
}

template <typename... Args>
std::string print(const char* format, Args... args) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, args...);
  return text.data();
}

}  // namespace

std::string ambiguous_duration(std::string_view text) {
  const std::vector<std::string> fields = split(trim(text), ':');
  if (fields.size() != 2 || text.find('-') != text.npos) return "";
  if (!parse_integer(fields[0]) || !parse_integer(fields[1])) return "";
  return "it could be minutes or hours: write " + fields[0] + "m" + fields[1] + "s or " +
         fields[0] + "h" + fields[1] + "m";
}

std::string long_duration(std::string_view text) {
  return value_of(trim(text)) >= kTooLong ? "is too long: the maximum is 1000 years" : "";
}

seconds parse_duration(std::string_view text) {
  const std::string_view word = trim(text);
  const std::string quoted = "'" + std::string(text) + "' ";
  if (const std::string advice = ambiguous_duration(word); !advice.empty()) {
    throw Error(Errc::InvalidInput, quoted + "is ambiguous: " + advice);
  }
  if (const std::string mistake = long_duration(word); !mistake.empty()) {
    throw Error(Errc::InvalidInput, quoted + mistake);
  }
  const auto value = value_of(word);
  if (!value) {
    throw Error(Errc::InvalidInput, quoted + "is not a duration; write 90s, 20m, 4h or 1-12:00:00");
  }
  return seconds(*value);
}

uint64_t parse_size(std::string_view text) {
  const std::string_view word = trim(text);
  const size_t number_end = std::min(word.find_first_not_of("0123456789."), word.size());
  const auto value = number_from<double>(word.substr(0, number_end));
  const double factor = bytes_of_unit(std::string(trim(word.substr(number_end))));
  if (value && factor > 0 && *value * factor < 0x1p63) return uint64_t(*value * factor);
  throw Error(Errc::InvalidInput,
              "'" + std::string(text) + "' is not a size; write 512MiB, 2GiB or 1.5GB");
}

std::string format_duration(std::chrono::milliseconds duration) {
  const int64_t total = std::max<int64_t>(0, std::chrono::floor<seconds>(duration).count());
  const auto days = static_cast<long long>(total / 86400);
  const int hours = int(total / 3600 % 24);
  const int minutes = int(total / 60 % 60);
  const int secs = int(total % 60);
  if (days > 0) return print("%lld-%02d:%02d:%02d", days, hours, minutes, secs);
  if (hours > 0) return print("%d:%02d:%02d", hours, minutes, secs);
  return print("%d:%02d", minutes, secs);
}

std::string format_age(std::chrono::milliseconds age) {
  const auto total = static_cast<long long>(std::max<int64_t>(0, age.count() / 1000));
  if (total < 60) return print("%lld s", total);
  if (total < 3600) return print("%lld min", total / 60);
  if (total < 2LL * 86400) return print("%lld h", total / 3600);
  return print("%lld d", total / 86400);
}

std::string format_size(uint64_t bytes) {
  if (bytes < 1024) return print("%d B", int(bytes));
  constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = double(bytes) / 1024;
  size_t unit = 0;
  while (value >= 999.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return print("%.1f %s", value, kUnits[unit]);
}

std::string print_number(const char* format, double value) {
  return print(format, value).substr(0, 39);
}

std::string format_count(uint64_t count) {
  std::string text = std::to_string(count);
  for (size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, ",");
  return text;
}

std::string plural(uint64_t count, const std::string& thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

}  // namespace dlflow
