#include "engine/model/expression_functions.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/not_finite.h"
#include "base/text.h"
#include "engine/model/shape.h"

namespace dlflow {
namespace {

using Arguments = std::span<const Json>;

Error wrong_argument(std::string_view function, std::string_view wanted, const Json& given) {
  return Error(Errc::InvalidInput, std::string(function) + "() takes " + std::string(wanted) +
                                       ", not " + describe(given));
}

/// Returns the replacement of the {…} at `text[begin]`, and sets `begin` behind it.
std::string placeholder(const std::string& text, size_t& begin, Arguments values) {
  const size_t end = text.find('}', begin);
  const size_t size = end == std::string::npos ? 0 : end - begin - 1;
  const auto index = number_from<size_t>(std::string_view(text).substr(begin + 1, size));
  if (!index || *index >= values.size()) {
    throw Error(Errc::InvalidInput, "format() has no value for '" +
                                        text.substr(begin, end - begin + 1) +
                                        "'; write {0} for the first one, {{ for a brace");
  }
  begin = end + 1;
  return text_of(values[*index]);
}

Json apply_format(Arguments arguments) {
  if (!arguments[0].is_string()) throw wrong_argument("format", "a text first", arguments[0]);
  const auto& text = arguments[0].get_ref<const std::string&>();
  std::string result;
  for (size_t i = 0; i < text.size();) {
    const bool doubled = i + 1 < text.size() && text[i + 1] == text[i];
    if (text[i] == '{' && !doubled) {
      result += placeholder(text, i, arguments.subspan(1));
    } else {
      result += text[i];
      i += doubled && (text[i] == '{' || text[i] == '}') ? 2 : 1;
    }
  }
  return result;
}

Json apply_join(Arguments arguments) {
  if (!arguments[0].is_array()) throw wrong_argument("join", "a list first", arguments[0]);
  std::vector<std::string> parts;
  for (const Json& element : arguments[0]) parts.push_back(text_of(element));
  return join(parts, arguments.size() > 1 ? text_of(arguments[1]) : ",");
}

Json apply_length(Arguments arguments) {
  const Json& value = arguments[0];
  if (value.is_string()) return int64_t(value.get_ref<const std::string&>().size());
  if (value.is_structured()) return int64_t(value.size());
  throw wrong_argument("length", "a string, a list or an object", value);
}

Json apply_contains(Arguments arguments) {
  const Json& where = arguments[0];
  const Json& what = arguments[1];
  if (where.is_array()) return std::find(where.begin(), where.end(), what) != where.end();
  if (!where.is_string()) throw wrong_argument("contains", "a list or a string first", where);
  if (!what.is_string()) throw wrong_argument("contains", "a string to look for in a string", what);
  const auto& text = where.get_ref<const std::string&>();
  return text.find(what.get_ref<const std::string&>()) != std::string::npos;
}

/// Returns the element of `list` at `place`. Negative places count from the end.
Json element_at(std::string_view function, const Json& list, int64_t place) {
  if (!list.is_array()) throw wrong_argument(function, "a list", list);
  const auto size = int64_t(list.size());
  const int64_t index = place < 0 ? size + place : place;
  if (index >= 0 && index < size) return list[size_t(index)];
  throw Error(Errc::InvalidInput, std::string(function) + "() finds nothing at place " +
                                      std::to_string(place) + " of a list of " +
                                      std::to_string(size));
}

Json apply_first(Arguments arguments) { return element_at("first", arguments[0], 0); }

Json apply_at(Arguments arguments) {
  const Json& place = arguments[1];
  if (!place.is_number_integer()) throw wrong_argument("at", "an integer second", place);
  return element_at("at", arguments[0], place.get<int64_t>());
}

Json apply_lookup(Arguments arguments) {
  const Json& mapping = arguments[0];
  if (!mapping.is_object()) throw wrong_argument("lookup", "a mapping first", mapping);
  const std::string key = text_of(arguments[1]);
  const auto found = mapping.find(key);
  if (found != mapping.end()) return *found;
  if (arguments.size() > 2) return arguments[2];
  std::vector<std::string> keys;
  for (const auto& [name, value] : mapping.items()) keys.push_back(name);
  std::string known = did_you_mean(key, keys);
  if (known.empty()) known = "; it has " + (keys.empty() ? "no keys" : join(keys, ", "));
  throw Error(Errc::InvalidInput, "lookup() finds no key '" + key + "'" + known);
}

using Better = bool (*)(const Json& a, const Json& b);

bool is_smaller(const Json& a, const Json& b) { return a < b; }
bool is_larger(const Json& a, const Json& b) { return b < a; }

/// The place of the best of `numbers`, the first one of a tie. \param wanted for messages
size_t place_of_best(std::string_view function, std::string_view wanted, Arguments numbers,
                     Better better) {
  std::optional<size_t> found;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (!number_of(numbers[i])) throw wrong_argument(function, wanted, numbers[i]);
    if (!comparable(numbers[i])) continue;
    if (!found || better(numbers[i], numbers[*found])) found = i;
  }
  if (found) return *found;
  throw Error(Errc::InvalidInput, std::string(function) +
                                      "() ignores NaN and infinite numbers, but there are no "
                                      "others; check why the jobs reported no finite number");
}

Json best(std::string_view function, Arguments arguments, Better better) {
  const bool one_list = arguments.size() == 1 && arguments[0].is_array();
  const Arguments numbers =
      one_list ? Arguments(arguments[0].get_ref<const Json::array_t&>()) : arguments;
  if (numbers.empty()) {
    throw Error(Errc::InvalidInput, std::string(function) + "() of an empty list has no value");
  }
  return numbers[place_of_best(function, "numbers or one list of them", numbers, better)];
}

Json apply_min(Arguments arguments) { return best("min", arguments, is_smaller); }

Json apply_max(Arguments arguments) { return best("max", arguments, is_larger); }

Json best_by(std::string_view function, Arguments arguments, Better better) {
  for (const Json& list : arguments) {
    if (!list.is_array()) throw wrong_argument(function, "two lists", list);
  }
  const Json& elements = arguments[0];
  const Json& numbers = arguments[1];
  if (elements.size() != numbers.size() || elements.empty()) {
    throw Error(Errc::InvalidInput,
                std::string(function) + "() takes as many numbers as elements, not " +
                    std::to_string(numbers.size()) + " for " + std::to_string(elements.size()));
  }
  return elements[place_of_best(function, "numbers second",
                                Arguments(numbers.get_ref<const Json::array_t&>()), better)];
}

Json apply_min_by(Arguments arguments) { return best_by("min_by", arguments, is_smaller); }

Json apply_max_by(Arguments arguments) { return best_by("max_by", arguments, is_larger); }

/// A workflow may not have more elements.
constexpr double kMostNumbers = 1'000'000;

void check_numbers(std::string_view function, Arguments arguments) {
  for (const Json& value : arguments) {
    if (!value.is_number()) throw wrong_argument(function, "numbers", value);
  }
}

Json apply_range(Arguments arguments) {
  check_numbers("range", arguments);
  const double first = arguments[0].get<double>();
  const double last = arguments[1].get<double>();
  const double step = arguments[2].get<double>();
  const double steps = std::floor((last - first) / step * (1 + 1e-12));
  if (!(steps >= 0) || step == 0) {
    throw Error(Errc::InvalidInput, "range() never gets from " + arguments[0].dump() + " to " +
                                        arguments[1].dump() + " in steps of " +
                                        arguments[2].dump());
  }
  if (steps >= kMostNumbers)
    throw Error(Errc::InvalidInput, "range() of more than 1,000,000 numbers");
  const bool whole = std::all_of(arguments.begin(), arguments.end(),
                                 [](const Json& value) { return value.is_number_integer(); });
  Json numbers = Json::array();
  for (double i = 0; i <= steps; ++i) {
    const double value = first + i * step;
    numbers.push_back(whole ? Json(int64_t(value)) : Json(rounded_for_people(value)));
  }
  return numbers;
}

Json apply_geomspace(Arguments arguments) {
  check_numbers("geomspace", arguments);
  const double first = arguments[0].get<double>();
  const double last = arguments[1].get<double>();
  if (!(first > 0) || !(last > 0)) {
    throw Error(Errc::InvalidInput, "geomspace() takes a first and a last number above 0");
  }
  const double count = arguments[2].get<double>();
  if (!arguments[2].is_number_integer() || count < 2 || count > kMostNumbers) {
    throw Error(Errc::InvalidInput,
                "geomspace() makes 2 to 1,000,000 numbers, not " + arguments[2].dump());
  }
  Json numbers = Json::array();
  for (double i = 0; i < count; ++i) {
    numbers.push_back(rounded_for_people(first * std::pow(last / first, i / (count - 1))));
  }
  return numbers;
}

Json apply_always(Arguments) { return true; }

Json apply_basename(Arguments arguments) {
  if (!arguments[0].is_string()) throw wrong_argument("basename", "a path", arguments[0]);
  std::string path = arguments[0].get<std::string>();
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path == "/" ? path : path.substr(path.rfind('/') + 1);
}

Json apply_to_json(Arguments arguments) { return arguments[0].dump(); }

constexpr size_t kAnyNumber = SIZE_MAX;

constexpr std::array<Function, 16> kFunctions = {{
    {"format", "format(text, value, …)", 1, kAnyNumber, apply_format},
    {"join", "join(list, separator)", 1, 2, apply_join},
    {"length", "length(value)", 1, 1, apply_length},
    {"contains", "contains(where, what)", 2, 2, apply_contains},
    {"first", "first(list)", 1, 1, apply_first},
    {"at", "at(list, place)", 2, 2, apply_at},
    {"lookup", "lookup(mapping, key, otherwise)", 2, 3, apply_lookup},
    {"min", "min(number, …)", 1, kAnyNumber, apply_min},
    {"max", "max(number, …)", 1, kAnyNumber, apply_max},
    {"min_by", "min_by(list, numbers)", 2, 2, apply_min_by},
    {"max_by", "max_by(list, numbers)", 2, 2, apply_max_by},
    {"range", "range(first, last, step)", 3, 3, apply_range},
    {"geomspace", "geomspace(first, last, count)", 3, 3, apply_geomspace},
    {"always", "always()", 0, 0, apply_always},
    {"basename", "basename(path)", 1, 1, apply_basename},
    {"toJSON", "toJSON(value)", 1, 1, apply_to_json},
}};

constexpr std::array<const char*, 5> kSymbols = {"+", "-", "*", "/", "//"};

std::string quoted_symbol(Arithmetic operation) {
  return "'" + std::string(kSymbols[size_t(operation)]) + "'";
}

[[noreturn]] void refuse(Arithmetic operation, const Json& left, const Json& right) {
  std::string message = quoted_symbol(operation) + " takes two ";
  message += operation == Arithmetic::FloorDivide ? "integers" : "numbers";
  message += ", not " + describe(left) + " and " + describe(right);
  if (operation == Arithmetic::Add && left.is_string() && right.is_string()) {
    message += "; format('{0}{1}', …) joins texts";
  }
  if (operation == Arithmetic::FloorDivide && left.is_number() && right.is_number()) {
    message += "; '/' divides any numbers";
  }
  throw Error(Errc::InvalidInput, message);
}

[[noreturn]] void too_large(Arithmetic operation, const Json& left, const Json& right) {
  throw Error(Errc::InvalidInput, left.dump() + " " + kSymbols[size_t(operation)] + " " +
                                      right.dump() + " is too large a number");
}

/// Returns the value if it is an integer that fits in int64_t.
std::optional<int64_t> integer_of(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t(INT64_MAX))
    return std::nullopt;
  return value.get<int64_t>();
}

int64_t floor_of_quotient(int64_t left, int64_t right) {
  const int64_t quotient = left / right;
  const bool rounds_up = left % right != 0 && (left < 0) != (right < 0);
  return quotient - (rounds_up ? 1 : 0);
}

/// Returns nothing on overflow.
std::optional<int64_t> compute_integer(Arithmetic operation, int64_t left, int64_t right) {
  int64_t result = 0;
  bool overflows = false;
  if (operation == Arithmetic::Add) overflows = __builtin_add_overflow(left, right, &result);
  if (operation == Arithmetic::Subtract) overflows = __builtin_sub_overflow(left, right, &result);
  if (operation == Arithmetic::Multiply) overflows = __builtin_mul_overflow(left, right, &result);
  if (operation == Arithmetic::FloorDivide) {
    overflows = left == INT64_MIN && right == -1;
    if (!overflows) result = floor_of_quotient(left, right);
  }
  return overflows ? std::nullopt : std::optional(result);
}

double compute_real(Arithmetic operation, double left, double right) {
  if (operation == Arithmetic::Add) return left + right;
  if (operation == Arithmetic::Subtract) return left - right;
  return operation == Arithmetic::Multiply ? left * right : left / right;
}

}  // namespace

std::span<const Function> expression_functions() { return kFunctions; }

std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "";
  if (value.is_structured()) {
    throw Error(Errc::InvalidInput, describe(value) +
                                        " cannot be used inside text; use join(list, ' ') or "
                                        "toJSON(value)");
  }
  std::string text;
  append_dump(text, value);
  return text;
}

std::string shown_value(const Json& value) {
  return value.is_structured() ? value.dump() : text_of(value);
}

double rounded_for_people(double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.15g", value);
  return std::strtod(text.data(), nullptr);
}

Json compute(Arithmetic operation, const Json& left, const Json& right) {
  if (!left.is_number() || !right.is_number()) refuse(operation, left, right);
  const bool divides = operation == Arithmetic::Divide || operation == Arithmetic::FloorDivide;
  if (divides && right == 0) {
    throw Error(Errc::InvalidInput, quoted_symbol(operation) + " cannot divide by 0");
  }
  const auto left_integer = integer_of(left);
  const auto right_integer = integer_of(right);
  if (left_integer && right_integer && operation != Arithmetic::Divide) {
    const auto result = compute_integer(operation, *left_integer, *right_integer);
    if (!result) too_large(operation, left, right);
    return *result;
  }
  if (operation == Arithmetic::FloorDivide) refuse(operation, left, right);
  const double result = compute_real(operation, left.get<double>(), right.get<double>());
  if (!std::isfinite(result)) too_large(operation, left, right);
  return rounded_for_people(result);
}

}  // namespace dlflow
