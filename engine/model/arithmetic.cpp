#include "engine/model/arithmetic.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "base/error.h"
#include "engine/model/shape.h"

namespace dlflow {
namespace {

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
