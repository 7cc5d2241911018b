#include "base/not_finite.h"

#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace dlflow {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 3> kWords = {
    {{"NaN", std::numeric_limits<double>::quiet_NaN()},
     {"Infinity", std::numeric_limits<double>::infinity()},
     {"-Infinity", -std::numeric_limits<double>::infinity()}}};

/// The end of the string that begins at `begin`, after its closing quote.
size_t end_of_string(std::string_view json, size_t begin) {
  for (size_t i = begin + 1; i < json.size(); ++i) {
    if (json[i] == '\\') {
      ++i;
    } else if (json[i] == '"') {
      return i + 1;
    }
  }
  return json.size();
}

/// The word that begins here; empty: none.
std::string_view word_at(std::string_view json) {
  for (const auto& [word, value] : kWords) {
    if (json.starts_with(word)) return word;
  }
  return {};
}

}  // namespace

std::string quote_not_finite(std::string_view json) {
  std::string result;
  for (size_t i = 0; i < json.size();) {
    if (json[i] == '"') {
      const size_t end = end_of_string(json, i);
      result += json.substr(i, end - i);
      i = end;
    } else if (const std::string_view word = word_at(json.substr(i)); !word.empty()) {
      result += '"' + std::string(word) + '"';
      i += word.size();
    } else {
      result += json[i++];
    }
  }
  return result;
}

std::optional<double> number_of(const Json& value) {
  if (value.is_number()) return value.get<double>();
  for (const auto& [word, number] : kWords) {
    if (value == word) return number;
  }
  return std::nullopt;
}

std::optional<double> number_at(const Json& object, const std::string& key) {
  if (!object.is_object() || !object.contains(key) || !object.at(key).is_number()) return {};
  return comparable(object.at(key));
}

bool can_be_best(double value) { return std::isfinite(value); }

std::optional<double> comparable(const Json& value) {
  const auto number = number_of(value);
  return number && can_be_best(*number) ? number : std::nullopt;
}

}  // namespace dlflow
