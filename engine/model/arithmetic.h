#pragma once

#include "base/json.h"

namespace dlflow {

/// An operator of expressions that computes a number from two.
enum class Arithmetic { Add, Subtract, Multiply, Divide, FloorDivide };

/// The result of `left` and `right`. Of two integers `+`, `-`, `*` and `//` give an integer; `/`
/// always gives a real number, and so does each with a real operand. `//` takes integers alone and
/// rounds down. Real results have 15 significant digits, the number that people mean: 0.1 + 0.2 is
/// 0.3. Throws Error{InvalidInput} for what is no number, a division by 0, and a result that is too
/// large.
Json compute(Arithmetic operation, const Json& left, const Json& right);

/// `value` with 15 significant digits.
double rounded_for_people(double value);

}  // namespace dlflow
