#include "engine/model/shape.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/text.h"

namespace dlflow {
namespace {

constexpr size_t kQuotedBytes = 40;  // of a string shown in a message

Shape of_type(Shape::Type type) {
  Shape shape;
  shape.type = type;
  return shape;
}

std::string number_text(double value) {
  return Json(value == std::floor(value) ? Json(int64_t(value)) : Json(value)).dump();
}

std::string describe_range(const Shape& shape, const std::string& noun,
                           const std::string& article) {
  if (!shape.minimum) return article + " " + noun;
  const std::string minimum = number_text(*shape.minimum);
  if (shape.maximum && *shape.maximum < std::numeric_limits<int>::max()) {
    const std::string maximum = number_text(*shape.maximum);
    if (shape.above_minimum)
      return article + " " + noun + " above " + minimum + ", at most " + maximum;
    return article + " " + noun + " from " + minimum +
           (shape.below_maximum ? " to less than " : " to ") + maximum;
  }
  const bool positive =
      shape.above_minimum ? *shape.minimum == 0 : *shape.minimum == 1 && noun == "integer";
  if (positive) return "a positive " + noun;
  return article + " " + noun + (shape.above_minimum ? " above " : " of at least ") + minimum;
}

std::string describe_alternatives(const std::vector<Shape>& alternatives) {
  std::string text;
  for (size_t i = 0; i < alternatives.size(); ++i) {
    if (i > 0) text += i + 1 == alternatives.size() ? " or " : ", ";
    text += describe(alternatives[i]);
  }
  return text;
}

bool in_range(double value, const Shape& shape) {
  if (shape.minimum && (value < *shape.minimum || (shape.above_minimum && value == *shape.minimum)))
    return false;
  return !shape.maximum || (shape.below_maximum ? value < *shape.maximum : value <= *shape.maximum);
}

/// The longest prefix of `text` with at most `max_bytes` that splits no UTF-8 character.
std::string_view shortened(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  while (max_bytes > 0 && (text[max_bytes] & 0xC0) == 0x80) --max_bytes;
  return text.substr(0, max_bytes);
}

}  // namespace

Shape anything() { return {}; }

Shape text() { return of_type(Shape::Type::Text); }

Shape integer(int minimum) {
  Shape shape = of_type(Shape::Type::Integer);
  shape.minimum = minimum;
  shape.maximum = std::numeric_limits<int>::max();
  return shape;
}

Shape number() { return of_type(Shape::Type::Number); }

Shape number(double minimum) {
  Shape shape = number();
  shape.minimum = minimum;
  return shape;
}

Shape number_above(double minimum, std::optional<double> maximum) {
  Shape shape = number(minimum);
  shape.maximum = maximum;
  shape.above_minimum = true;
  return shape;
}

Shape number_between(double minimum, double maximum) {
  Shape shape = number(minimum);
  shape.maximum = maximum;
  return shape;
}

Shape number_below(double minimum, double maximum) {
  Shape shape = number_between(minimum, maximum);
  shape.below_maximum = true;
  return shape;
}

Shape boolean() { return of_type(Shape::Type::Boolean); }

Shape choice(std::vector<std::string> choices, std::map<std::string, std::string> former) {
  Shape shape = of_type(Shape::Type::Choice);
  shape.choices = std::move(choices);
  shape.former = std::move(former);
  return shape;
}

Shape formed(const Form& form) {
  Shape shape = of_type(Shape::Type::Formed);
  shape.form = &form;
  return shape;
}

Shape list_of(Shape element, int fewest, std::optional<int> most) {
  Shape shape = of_type(Shape::Type::List);
  shape.minimum = fewest;
  shape.maximum = most;
  shape.parts.push_back(std::move(element));
  return shape;
}

Shape object(std::vector<Field> fields) {
  Shape shape = of_type(Shape::Type::Object);
  shape.fields = std::move(fields);
  return shape;
}

Shape map_of(const Form& key, Shape value) {
  Shape shape = of_type(Shape::Type::Map);
  shape.form = &key;
  shape.parts.push_back(std::move(value));
  return shape;
}

Shape either(std::vector<Shape> alternatives) {
  Shape shape = of_type(Shape::Type::Either);
  shape.parts = std::move(alternatives);
  return shape;
}

Shape scalar() {
  Shape written = number();
  written.as_written = true;
  return either({text(), std::move(written), boolean()});
}

Shape argument() {
  Shape one = scalar();
  one.takes_lists = true;
  return one;
}

const Field* find_field(const Shape& object, std::string_view name) {
  for (const Field& field : object.fields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

bool fits(const Json& value, const Shape& shape) {
  switch (shape.type) {
    case Shape::Type::Text:
      return value.is_string();
    case Shape::Type::Integer:
      return value.is_number_integer() && in_range(value.get<double>(), shape);
    case Shape::Type::Number:
      return value.is_number() && in_range(value.get<double>(), shape);
    case Shape::Type::Boolean:
      return value.is_boolean();
    case Shape::Type::Choice:
      return value.is_string() &&
             std::ranges::count(shape.choices, value.get_ref<const std::string&>()) > 0;
    case Shape::Type::Formed:
      if (shape.form->or_integer && value.is_number_integer()) {
        return shape.form->accepts(value.dump());
      }
      return value.is_string() && shape.form->accepts(value.get_ref<const std::string&>());
    case Shape::Type::Anything:
    case Shape::Type::List:
    case Shape::Type::Object:
    case Shape::Type::Map:
    case Shape::Type::Either:
      break;
  }
  return false;
}

std::string describe(const Shape& shape) {
  switch (shape.type) {
    case Shape::Type::Anything:
      return "a value";
    case Shape::Type::Text:
      return "a string";
    case Shape::Type::Integer:
      return describe_range(shape, "integer", "an");
    case Shape::Type::Number:
      return describe_range(shape, "number", "a");
    case Shape::Type::Boolean:
      return "true or false";
    case Shape::Type::Choice:
      return (shape.choices.size() == 1 ? "" : "one of ") + join(shape.choices, ", ");
    case Shape::Type::Formed:
      return std::string(shape.form->what);
    case Shape::Type::List:
      if (shape.maximum) return "a list of " + number_text(*shape.maximum);
      if (*shape.minimum > 1) return "a list of at least " + number_text(*shape.minimum);
      return *shape.minimum > 0 ? "a non-empty list" : "a list";
    case Shape::Type::Object:
    case Shape::Type::Map:
      return "a mapping";
    case Shape::Type::Either:
      return describe_alternatives(shape.parts);
  }
  return {};
}

std::string quoted(const Json& text) {
  const auto& whole = text.get_ref<const std::string&>();
  const std::string_view shown = shortened(whole, kQuotedBytes);
  return "'" + std::string(shown) + (shown.size() < whole.size() ? "…'" : "'");
}

std::string describe(const Json& value) {
  switch (value.type()) {
    case Json::value_t::object:
      return "a mapping";
    case Json::value_t::array:
      return "a list";
    case Json::value_t::null:
      return "nothing";
    case Json::value_t::string:
      return "the string " + quoted(value);
    default:
      return value.dump();
  }
}

}  // namespace dlflow
