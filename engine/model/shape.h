#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

/// The permitted form of a value in a YAML file. There is one description per file format; the
/// parser's checks (check.h), the JSON Schema (schema.h) and the tests of the documents all use it.
namespace dlflow {

/// Text of a certain form: a duration, a size, a name.
struct Form {
  std::string_view what;      ///< "a duration"
  std::string_view examples;  ///< "90s, 20m, 4h or 1-12:00:00", for messages
  std::string_view pattern;   ///< ECMA-262, anchored, for the JSON Schema; may accept more
  bool (*accepts)(std::string_view text);
  bool or_integer = false;  ///< also accepts a plain number: cache_budget: 4096
  enum class Exists { Unchecked, File, FileOrFolder };
  Exists exists = Exists::Unchecked;  ///< what must exist at the path when the YAML file is read
  /// Returns how to correct a rejected text, or an empty text, and then the message shows the
  /// examples. A result that begins with "is " also states the mistake.
  std::string (*advice)(std::string_view text) = nullptr;
};

/// The references that expressions in a value may contain; each scope includes those before it.
enum class Scope {
  Nothing,  ///< no expressions here
  Params,   ///< known when the file is read
  Matrix,   ///< known when the plan is made
  Steps,    ///< known when the job starts
};

struct Field;

struct Shape {
  enum class Type {
    Anything,
    Text,
    Integer,
    Number,
    Boolean,
    Choice,  ///< one of `choices`
    Formed,  ///< text of `form`
    List,    ///< of parts[0]
    Object,  ///< with `fields`
    Map,     ///< `fields`, and free keys of `form` with values of parts[0]
    Either,  ///< one of `parts`
  };

  Type type = Type::Anything;
  std::optional<double> minimum;  ///< Integer, Number; List: fewest elements
  std::optional<double> maximum;  ///< List: most elements
  bool above_minimum = false;     ///< the minimum itself is too small
  bool below_maximum = false;     ///< the maximum itself is too large
  bool takes_lists = false;       ///< an expression may give a list of such values
  bool as_written = false;        ///< Number: becomes a text if JSON would write it differently
  std::vector<std::string> choices;
  std::map<std::string, std::string> former;  ///< Choice: former words -> advice;
                                              ///< Object: former keys -> advice
  const Form* form = nullptr;
  std::vector<Shape> parts;
  std::vector<Field> fields;
  std::string about_others;  ///< Object: where other keys may belong, or empty
};

enum class Presence { Optional, Required };
constexpr Presence kOptional = Presence::Optional, kRequired = Presence::Required;

/// One key of an object.
struct Field {
  std::string name;
  Shape shape;
  std::string description;  ///< a sentence without its full stop
  Presence presence = Presence::Optional;
  Json fallback = nullptr;  ///< the default of a missing key; null: none
  /// The expressions allowed in the value and below it; if absent, those of the enclosing object.
  std::optional<Scope> scope = std::nullopt;
};

Shape anything();
Shape text();
/// At most INT_MAX, so that the value fits in an int.
Shape integer(int minimum);
Shape number();
Shape number(double minimum);
Shape number_above(double minimum, std::optional<double> maximum = std::nullopt);
Shape number_between(double minimum, double maximum);
Shape number_below(double minimum, double maximum);  ///< minimum included, maximum excluded
Shape boolean();
Shape choice(std::vector<std::string> choices, std::map<std::string, std::string> former = {});
Shape formed(const Form& form);
Shape list_of(Shape element, int fewest = 0, std::optional<int> most = std::nullopt);
Shape object(std::vector<Field> fields);
Shape map_of(const Form& key, Shape value);
Shape either(std::vector<Shape> alternatives);
/// A value for an environment variable or an argument: a string, a number or a boolean. Programs
/// get a number as written: 3.10, 1e-3.
Shape scalar();

/// An argument of a program: a scalar, or an expression whose list becomes several arguments.
Shape argument();

/// The field of an object shape with that name, or null.
const Field* find_field(const Shape& object, std::string_view name);

/// Whether a scalar fits `shape`; false for shapes of lists and objects.
bool fits(const Json& scalar, const Shape& shape);

/// "a positive integer", "a string or a list", "true or false": the shape in a message.
std::string describe(const Shape& shape);

/// A string for a message: in quotes, and shortened if it is long.
std::string quoted(const Json& text);

/// `value` in a message: "the string 'three'", "0", "a list", "nothing".
std::string describe(const Json& value);

}  // namespace dlflow
