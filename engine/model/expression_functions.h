#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/json.h"

/// The functions an expression may call, and its arithmetic. All are pure: the same arguments give
/// the same value.
///
///   format(text, value, …)   `text` with {0}, {1}, … replaced; {{ and }} stand for braces
///   join(list, separator)    the elements as one text; the separator is ',' if left out
///   length(value)            bytes of a string, elements of a list, keys of an object
///   contains(where, what)    whether a list has that element, or a string that part
///   first(list)              its first element
///   at(list, place)          the element at a place; the first is at 0, the last at -1
///   lookup(mapping, key, otherwise)  the value of a key; `otherwise` if there is no such key
///   min(number, …)           the smallest; also of one list of numbers
///   max(number, …)           the largest; also of one list of numbers
///   max_by(list, numbers)    the element with the largest number, the first one of a tie
///   min_by(list, numbers)    the element with the smallest number, likewise
///   range(first, last, step)  numbers from `first` to `last`, included if a step hits it
///   geomspace(first, last, count)  `count` numbers with a constant ratio
///   always()                 true; in `if:`, the step runs regardless of how its needs end
///   basename(path)           the part after the last '/', ignoring trailing ones
///   toJSON(value)            the value as JSON text on one line
namespace dlflow {

struct Function {
  std::string_view name;
  std::string_view usage;  ///< "join(list, separator)"
  size_t min_arguments;
  size_t max_arguments;
  Json (*apply)(std::span<const Json> arguments);  ///< throws Error{InvalidInput}
};

std::span<const Function> expression_functions();

/// Returns a scalar as text: a string itself, nothing for null, otherwise its JSON. Throws
/// Error{InvalidInput} for a list or an object.
std::string text_of(const Json& value);

/// Returns any value for a message: a scalar like text_of(), a list or an object as JSON.
std::string shown_value(const Json& value);

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
