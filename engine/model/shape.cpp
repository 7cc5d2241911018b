#include "engine/model/shape.h"

#include <cmath>
#include <limits>
#include <utility>

#include "base/text.h"

namespace dlflow {
namespace {

constexpr size_t kQuotedBytes = 40;  // of a string in a message

std::string number_text(double value) {
  return Json(value == std::floor(value) ? Json(int64_t(value)) : Json(value)).dump();
}

std::string describe_range(const Shape& shape, const std::string& noun,
                           const std::string& article) {
  if (!shape.minimum) return article + " " + noun;
  const std::string minimum = number_text(*shape.minimum);
  const bool positive =
      shape.above_minimum ? *shape.minimum == 0 : *shape.minimum == 1 && noun == "integer";
  if (positive) return "a positive " + noun;
  if (shape.maximum && *shape.maximum < std::numeric_limits<int>::max()) {
    return article + " " + noun + " from " + minimum + " to " + number_text(*shape.maximum);
  }
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

/// The longest beginning of `text` of at most `max_bytes` that splits no UTF-8 character.
std::string_view shortened(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  while (max_bytes > 0 && (text[max_bytes] & 0xC0) == 0x80) --max_bytes;
  return text.substr(0, max_bytes);
}

}  // namespace

Shape anything() { return {}; }

Shape text() { return {.type = Shape::Type::Text}; }

Shape integer(int minimum) {
  return {
      .type = Shape::Type::Integer, .minimum = minimum, .maximum = std::numeric_limits<int>::max()};
}

Shape number() { return {.type = Shape::Type::Number}; }

Shape number(double minimum) { return {.type = Shape::Type::Number, .minimum = minimum}; }

Shape number_above(double minimum) {
  return {.type = Shape::Type::Number, .minimum = minimum, .above_minimum = true};
}

Shape number_between(double minimum, double maximum) {
  return {.type = Shape::Type::Number, .minimum = minimum, .maximum = maximum};
}

Shape boolean() { return {.type = Shape::Type::Boolean}; }

Shape choice(std::vector<std::string> choices) {
  return {.type = Shape::Type::Choice, .choices = std::move(choices)};
}

Shape formed(const Form& form) { return {.type = Shape::Type::Formed, .form = &form}; }

Shape list_of(Shape element, int fewest) {
  return {.type = Shape::Type::List, .minimum = fewest, .parts = {std::move(element)}};
}

Shape object(std::vector<Field> fields) {
  return {.type = Shape::Type::Object, .fields = std::move(fields)};
}

Shape map_of(const Form& key, Shape value) {
  return {.type = Shape::Type::Map, .form = &key, .parts = {std::move(value)}};
}

Shape either(std::vector<Shape> alternatives) {
  return {.type = Shape::Type::Either, .parts = std::move(alternatives)};
}

Shape scalar() { return either({text(), number(), boolean()}); }

const Field* find_field(const Shape& object, std::string_view name) {
  for (const Field& field : object.fields) {
    if (field.name == name) return &field;
  }
  return nullptr;
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
