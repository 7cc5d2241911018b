#include "engine/model/check.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "engine/model/expression_functions.h"
#include "engine/model/expression_syntax.h"
#include "engine/model/forms.h"
#include "engine/model/hints.h"

namespace dlflow {
namespace {

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Returns the location of the expression that `path` (below `root`), `index` and `offset` name.
Location locate(const YamlNode& root, const Mistakes& mistakes, std::span<const std::string> path,
                size_t index, size_t offset) {
  const YamlNode* node = &root;
  for (const std::string& step : path) {
    const YamlEntry* entry = nullptr;
    if (node->kind == YamlNode::Kind::Map) entry = find_entry(*node, step);
    if (node->kind == YamlNode::Kind::List) entry = &node->entries[std::stoul(step)];
    if (entry == nullptr) return node->location;
    node = entry->value.get();
  }
  const size_t begin = find_expression(mistakes.text().substr(node->offset), index);
  if (begin == std::string_view::npos) return node->location;  // hidden by an escape: "\x24{{"
  return mistakes.location_of(node->offset + begin + offset);
}

/// Whether a step decides the values of this axis.
bool is_open(const Matrix& matrix, const std::string& axis) {
  return std::ranges::any_of(
      matrix.axes, [&](const MatrixAxis& known) { return known.name == axis && known.is_open(); });
}

/// Returns the alternative of an Either that `node` is probably meant to be, or null.
const Shape* meant(const YamlNode& node, const Shape& either) {
  const Shape* best = nullptr;
  for (const Shape& part : either.parts) {
    const bool list = part.type == Shape::Type::List;
    const bool map = part.type == Shape::Type::Map || part.type == Shape::Type::Object;
    if (list || map) {
      if (node.kind == (list ? YamlNode::Kind::List : YamlNode::Kind::Map)) return &part;
      continue;
    }
    if (node.kind != YamlNode::Kind::Scalar) continue;
    if (fits(node.scalar, part)) return &part;
    if (part.type == Shape::Type::Formed && node.scalar.is_string()) best = &part;
  }
  return best;
}

/// Returns the shape that lists the permitted words, perhaps one alternative of several, or null.
const Shape* choice_in(const Shape& shape) {
  if (shape.type == Shape::Type::Choice) return &shape;
  if (shape.type != Shape::Type::Either) return nullptr;
  for (const Shape& part : shape.parts) {
    if (part.type == Shape::Type::Choice) return &part;
  }
  return nullptr;
}

}  // namespace

Subject Subject::at(const std::string& key) const {
  return {path.empty() ? key : path + "." + key, owner};
}

Subject Subject::at(size_t index) const {
  return {path + "[" + std::to_string(index) + "]", owner};
}

std::string Subject::name() const {
  if (path.empty()) return owner;
  return owner.empty() ? path : path + " of " + owner;
}

std::optional<Json> Checker::check(const YamlNode& node, const Shape& shape, Scope scope,
                                   const Subject& subject) {
  Json value;
  if (!check_node(node, {shape, scope, subject}, value)) return std::nullopt;
  return value;
}

void Checker::check_keys(const YamlNode& map, const Shape& shape, const Subject& subject) {
  for (const YamlEntry& entry : map.entries) {
    if (entry.first_line > 0) {
      report_repeated_key(entry, subject);
    } else if (find_field(shape, entry.key) == nullptr) {
      report_unknown_key(entry, shape, subject);
    }
  }
}

bool Checker::check_node(const YamlNode& node, const Wanted& wanted, Json& value) {
  if (names_.params != nullptr && node.scalar.is_string() &&
      holds_expression(node.scalar.get_ref<const std::string&>())) {
    return check_expression(node, wanted, value);
  }
  switch (wanted.shape.type) {
    case Shape::Type::Anything:
      return check_anything(node, wanted, value);
    case Shape::Type::List:
      return check_list(node, wanted, value);
    case Shape::Type::Object:
    case Shape::Type::Map:
      return check_map(node, wanted, value);
    case Shape::Type::Either:
      if (const Shape* part = meant(node, wanted.shape)) {
        return check_node(node, {*part, wanted.scope, wanted.subject}, value);
      }
      return refuse(node, wanted);
    case Shape::Type::Text:
    case Shape::Type::Integer:
    case Shape::Type::Number:
    case Shape::Type::Boolean:
    case Shape::Type::Choice:
    case Shape::Type::Formed:
      break;
  }
  value = wanted.shape.as_written && !node.written.empty() ? Json(node.written) : node.scalar;
  return check_scalar(node, wanted);
}

bool Checker::check_list(const YamlNode& node, const Wanted& wanted, Json& value) {
  const Shape& shape = wanted.shape;
  const auto length = double(node.entries.size());
  const bool fits = length >= *shape.minimum && (!shape.maximum || length <= *shape.maximum);
  if (node.kind != YamlNode::Kind::List || !fits) return refuse(node, wanted);
  value = Json::array();
  bool good = true;
  for (const YamlEntry& entry : node.entries) {
    Json element;
    const Subject inner = wanted.subject.at(value.size());
    good = check_node(*entry.value, {shape.parts[0], wanted.scope, inner}, element) && good;
    value.push_back(std::move(element));
  }
  return good;
}

bool Checker::check_map(const YamlNode& node, const Wanted& wanted, Json& value) {
  if (node.kind != YamlNode::Kind::Map) return refuse(node, wanted);
  value = Json::object();
  bool good = true;
  for (const YamlEntry& entry : node.entries) {
    if (entry.first_line > 0) {
      report_repeated_key(entry, wanted.subject);
      good = false;
    } else {
      good = check_entry(entry, wanted, value) && good;
    }
  }
  return add_missing_keys(node, wanted, value) && good;
}

bool Checker::check_entry(const YamlEntry& entry, const Wanted& wanted, Json& value) {
  const auto& [shape, scope, subject] = wanted;
  const Subject inner = subject.at(entry.key);
  if (const Field* field = find_field(shape, entry.key)) {
    const Scope inner_scope = field->scope.value_or(scope);
    return check_node(*entry.value, {field->shape, inner_scope, inner}, value[entry.key]);
  }
  // A number under a key like `max-parallel` is a typo of a field, not an axis of a matrix.
  const bool is_typo = entry.value->scalar.is_number() && !shape.parts.empty() &&
                       shape.parts[0].type == Shape::Type::List &&
                       !nearest(entry.key, field_names(shape)).empty();
  if (shape.type != Shape::Type::Map || is_typo) {
    report_unknown_key(entry, shape, subject);
    return false;
  }
  if (!shape.form->accepts(entry.key)) {
    report_bad_name(entry, *shape.form, subject);
    return false;
  }
  return check_node(*entry.value, {shape.parts[0], scope, inner}, value[entry.key]);
}

bool Checker::add_missing_keys(const YamlNode& node, const Wanted& wanted, Json& value) {
  bool good = true;
  for (const Field& field : wanted.shape.fields) {
    if (find_entry(node, field.name) != nullptr) continue;
    if (field.presence == Presence::Required) {
      mistakes_.add(node.location, "missing key '" + field.name + "' in " + wanted.subject.name() +
                                       "; it is " + describe(field.shape));
      good = false;
    } else if (!field.fallback.is_null()) {
      value[field.name] = field.fallback;
    }
  }
  return good;
}

bool Checker::check_anything(const YamlNode& node, const Wanted& wanted, Json& value) {
  static const Shape list = list_of(anything());
  static const Shape map = map_of(kKeyForm, anything());
  if (node.kind == YamlNode::Kind::Scalar) {
    value = node.scalar;
    return true;
  }
  const Wanted inner = {node.kind == YamlNode::Kind::List ? list : map, wanted.scope,
                        wanted.subject};
  return check_node(node, inner, value);
}

bool Checker::check_scalar(const YamlNode& node, const Wanted& wanted) {
  if (node.kind != YamlNode::Kind::Scalar || !fits(node.scalar, wanted.shape)) {
    return refuse(node, wanted);
  }
  const bool is_file = wanted.shape.type == Shape::Type::Formed &&
                       wanted.shape.form->exists != Form::Exists::Unchecked;
  return !is_file || names_.base.empty() || check_file(node, wanted);
}

bool Checker::refuse(const YamlNode& node, const Wanted& wanted) {
  const auto& [shape, scope, subject] = wanted;
  const Json value = node.kind == YamlNode::Kind::Scalar ? node.scalar
                     : node.kind == YamlNode::Kind::List ? Json::array()
                                                         : Json::object();
  const bool is_empty_list = node.kind == YamlNode::Kind::List && node.entries.empty();
  const bool has_wrong_length = node.kind == YamlNode::Kind::List &&
                                shape.type == Shape::Type::List &&
                                (shape.maximum || *shape.minimum > 1);
  std::string advice = hint_on_value(value, shape);
  const Shape* const words = choice_in(shape);
  if (words != nullptr && value.is_string()) {
    const auto& word = value.get_ref<const std::string&>();
    const auto former = words->former.find(word);
    std::string nearest = former != words->former.end() ? "; " + former->second
                                                        : mistakes_.advice(word, words->choices);
    if (!nearest.empty() || words == &shape) advice = std::move(nearest);
  }
  const bool is_word = shape.type == Shape::Type::Choice || shape.type == Shape::Type::Formed;
  if (is_word && value.is_string()) {
    const bool says_it = advice.starts_with("; is ");
    mistakes_.add(node.location,
                  subject.name() + ": " + quoted(value) +
                      (says_it ? advice.substr(1) : " is not " + describe(shape) + advice));
    return false;
  }
  const std::string given = value.is_null() ? ", but it has no value"
                            : is_empty_list ? ", not an empty list"
                            : has_wrong_length
                                ? ", not a list of " + std::to_string(node.entries.size())
                                : ", not " + describe(value);
  mistakes_.add(node.location, subject.name() + " must be " + describe(shape) + given + advice);
  return false;
}

void Checker::report_unknown_key(const YamlEntry& entry, const Shape& shape,
                                 const Subject& subject) {
  const std::vector<std::string> names = field_names(shape);
  const auto former = shape.former.find(entry.key);
  std::string advice =
      former != shape.former.end() ? former->second : hint_on_key(entry.key, shape);
  if (advice.empty()) advice = mistakes_.advice_or_list(entry.key, names);
  mistakes_.add(entry.location, "unknown key '" + entry.key + "' in " + subject.name() + advice +
                                    shape.about_others);
}

void Checker::report_repeated_key(const YamlEntry& entry, const Subject& subject) {
  mistakes_.add(entry.location, "key '" + entry.key + "' occurs twice in " + subject.name() +
                                    "; the first one is in line " +
                                    std::to_string(entry.first_line));
}

void Checker::report_bad_name(const YamlEntry& entry, const Form& form, const Subject& subject) {
  mistakes_.add(entry.location, "'" + entry.key + "' in " + subject.name() + " is not " +
                                    std::string(form.what) + "; " +
                                    advice_of(form, entry.key, "use"));
}

bool Checker::check_expression(const YamlNode& node, const Wanted& wanted, Json& value) {
  value = node.scalar;
  const size_t before = mistakes_.count();
  const Template text(
      node.scalar,
      [&](auto path, size_t index, size_t offset) {
        return locate(node, mistakes_, path, index, offset);
      },
      [&](Location at, const std::string& message) { mistakes_.add(at, message); });
  if (mistakes_.count() != before) return false;
  if (wanted.scope == Scope::Nothing) {
    mistakes_.add(node.location, "expressions cannot be used in " + wanted.subject.name());
    return false;
  }
  bool good = true;
  bool is_known = true;
  std::set<std::string> axes;
  for (const Reference& reference : text.references()) {
    good = check_reference(reference, wanted) && good;
    if (reference.path[0] == "matrix") axes.insert(reference.path[1]);
    is_known = is_known && (reference.path[0] == "params" || reference.path[0] == "matrix");
  }
  if (!good || !is_known || axes.size() > 1) return good;
  if (axes.empty()) return check_result(text, nullptr, node, wanted, value);
  const std::string& axis = *axes.begin();
  if (is_open(*names_.matrix, axis)) return true;
  for (const Json& axis_value : axis_values(*names_.matrix, axis)) {
    const Json element = {{axis, axis_value}};
    if (!check_result(text, &element, node, wanted, value)) return false;
  }
  return true;
}

/// Returns false if the reference has no value. References to a wrong parameter or matrix add no
/// mistake, since the user has seen one already.
bool Checker::check_reference(const Reference& reference, const Wanted& wanted) {
  const std::string& first = reference.path[0];
  const Scope needed = first == "params"   ? Scope::Params
                       : first == "matrix" ? Scope::Matrix
                                           : Scope::Steps;
  if (needed > wanted.scope) {
    mistakes_.add(reference.location,
                  to_string(reference) + " has no value yet in " + wanted.subject.name() +
                      (wanted.scope == Scope::Matrix ? "; use only params. and matrix."
                                                     : "; use only params."));
    return false;
  }
  if (first == "params") return check_param(reference);
  return first != "matrix" || check_axis(reference);
}

bool Checker::check_param(const Reference& reference) {
  const std::string& name = reference.path[1];
  if (names_.params->contains(name)) return true;
  if (contains(names_.wrong_params, name)) return false;
  if (contains(names_.later_params, name)) {
    mistakes_.add(
        reference.location,
        "params." + name + " is not defined yet; a parameter may use only those above it");
    return false;
  }
  std::vector<std::string> known;
  for (const auto& [key, value] : names_.params->items()) known.push_back(key);
  const size_t minus = name.find('-');
  if (minus != name.npos && contains(known, name.substr(0, minus))) {
    mistakes_.add(reference.location, "unknown parameter '" + name +
                                          "'; a name may hold '-', so write spaces to subtract: "
                                          "params." +
                                          name.substr(0, minus) + " - …");
    return false;
  }
  mistakes_.add(reference.location, "unknown parameter '" + name + "'" +
                                        (known.empty() ? "; there are no params here"
                                                       : mistakes_.advice_or_list(name, known)));
  return false;
}

bool Checker::check_axis(const Reference& reference) {
  if (names_.matrix_is_wrong) return false;
  const std::string& name = reference.path[1];
  if (names_.matrix == nullptr) {
    mistakes_.add(reference.location, to_string(reference) +
                                          " has no value, since the step has no matrix; write " +
                                          "matrix: {" + name + ": [VALUE, …]}");
    return false;
  }
  const std::vector<std::string> axes = axis_names(*names_.matrix);
  if (contains(axes, name)) return check_key(*names_.matrix, reference, 2, mistakes_);
  mistakes_.add(reference.location,
                "the matrix has no axis '" + name + "'" + mistakes_.advice_or_list(name, axes));
  return false;
}

bool Checker::check_result(const Template& text, const Json* element, const YamlNode& node,
                           const Wanted& wanted, Json& value) {
  Json result;
  try {
    result = text.evaluate({.params = names_.params, .matrix = element});
  } catch (const Error& error) {
    mistakes_.add(node.location, wanted.subject.name() + ": " + error.what());
    return false;
  }
  // The result of an expression is data: it is compared with the shape, never evaluated again.
  Mistakes found({}, {});
  Names data;
  data.base = names_.base;
  Checker checker(found, data);
  Shape shape = wanted.shape;
  if (shape.takes_lists && result.is_array()) shape = list_of(std::move(shape));
  const auto checked =
      checker.check(*to_yaml(result, node.location), shape, wanted.scope, wanted.subject);
  if (checked) {
    if (wanted.scope == Scope::Params) value = *checked;
    return true;
  }
  std::string origin = " (from '" + text.source().get<std::string>() + "'";
  if (element != nullptr) {
    origin += " with " + element->begin().key() + " = " + shown_value(element->begin().value());
  }
  for (const Diagnostic& mistake : found.take()) {
    mistakes_.add(mistake.location, mistake.message + origin + ")");
  }
  return false;
}

bool check_key(const Matrix& matrix, const Reference& reference, size_t at, Mistakes& mistakes) {
  const std::string& axis = reference.path[at - 1];
  if (reference.path.size() <= at || is_open(matrix, axis)) return true;
  const std::string& key = reference.path[at];
  const std::vector<std::string> keys = axis_keys(matrix, axis);
  if (contains(keys, key)) return true;
  mistakes.add(reference.location, keys.empty() ? "the values of axis '" + axis +
                                                      "' are not mappings; write " +
                                                      join(std::span(reference.path).first(at), ".")
                                                : "axis '" + axis + "' has no key '" + key + "'" +
                                                      mistakes.advice_or_list(key, keys));
  return false;
}

Template located_template(Json value, const YamlNode& node, const Mistakes& mistakes) {
  return Template(
      std::move(value),
      [&](auto path, size_t index, size_t offset) {
        return locate(node, mistakes, path, index, offset);
      },
      [](Location, const std::string&) {});
}

}  // namespace dlflow
