#pragma once

#include "base/json.h"

namespace dlflow {

/// An operator of expressions that computes a number from two numbers.
enum class Arithmetic { Add, Subtract, Multiply, Divide, FloorDivide };

/// Computes `left operation right`. `+`, `-`, `*` and `//` of two integers give an integer; `/`,
/// and every operator with a real operand, gives a real number. `//` takes only integers and rounds
/// down. Real results are rounded to 15 significant digits, so that 0.1 + 0.2 is 0.3. Throws
/// Error{InvalidInput} if an operand is not a number, for a division by 0, and on overflow.
Json compute(Arithmetic operation, const Json& left, const Json& right);

/// Rounds `value` to 15 significant digits.
double rounded_for_people(double value);

}  // namespace dlflow
