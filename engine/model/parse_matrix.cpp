#include "engine/model/parse_matrix.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "engine/model/expression_functions.h"
#include "engine/model/forms.h"
#include "engine/model/workflow_shape.h"

namespace dlflow {
namespace {

using Sources = std::map<std::string, AxisSource>;  // by axis

/// Whether `text` holds only the reference.
bool is_alone(const std::string& text, const Reference& reference) {
  const std::string_view whole = trim(text);
  constexpr size_t kOpening = 3;
  constexpr size_t kClosing = 2;
  if (!whole.starts_with("${{") || !whole.ends_with("}}")) return false;
  const std::string_view inner = whole.substr(kOpening, whole.size() - kOpening - kClosing);
  return trim(inner) == to_string(reference);
}

/// Returns the axes whose values a step decides, and removes their entries from `node`.
Sources take_sources(YamlNode& node, const Shape& shape, Mistakes& mistakes, const Subject& subject,
                     std::vector<Reference>& references) {
  Sources sources;
  std::vector<YamlEntry> others;
  for (YamlEntry& entry : node.entries) {
    const YamlNode& value = *entry.value;
    const bool is_text = value.kind == YamlNode::Kind::Scalar && value.scalar.is_string();
    std::optional<Reference> source;
    if (is_text && entry.first_line == 0 && find_field(shape, entry.key) == nullptr) {
      const Template text = located_template(value.scalar, value, mistakes);
      for (const Reference& reference : text.references()) {
        if (reference.path[0] == "steps") source = reference;
      }
    }
    if (!source) {
      others.push_back(std::move(entry));
      continue;
    }
    references.push_back(*source);
    if (source->path[2] != "outputs" || !is_alone(value.scalar, *source)) {
      mistakes.add(value.location, subject.at(entry.key).name() +
                                       " takes a step's list unchanged; write "
                                       "\"${{ steps.NAME.outputs.KEY }}\" and nothing else");
    }
    if (!kNameForm.accepts(entry.key)) {
      mistakes.add(entry.location, "'" + entry.key + "' in " + subject.name() + " is not " +
                                       std::string(kNameForm.what));
    }
    sources[entry.key] = {source->path[1], source->path[3]};
  }
  node.entries = std::move(others);
  return sources;
}

/// Turns the checked value of `matrix:` into a Matrix and checks what its shape cannot express.
class MatrixReader {
 public:
  MatrixReader(const YamlNode& node, const Json& value, const Sources& sources, const Shape& shape,
               Mistakes& mistakes, const Subject& subject)
      : node_(node),
        value_(value),
        sources_(sources),
        shape_(shape),
        mistakes_(mistakes),
        subject_(subject) {}

  Matrix read() {
    if (node_.kind != YamlNode::Kind::Map) {
      mistakes_.add(node_.location, subject_.name() +
                                        " cannot be one expression; name its axes, "
                                        "whose values may be expressions");
      return {};
    }
    for (const YamlEntry& entry : node_.entries) {
      if (find_field(shape_, entry.key) != nullptr) continue;
      const auto source = sources_.find(entry.key);
      if (source != sources_.end()) {
        matrix_.axes.push_back({entry.key, {Json()}, source->second});
      } else {
        matrix_.axes.push_back({entry.key, value_.at(entry.key)});
        check_distinct(entry);
        check_mappings(entry);
      }
      check_variable(entry.key, entry.key, entry.location);
    }
    if (sources_.empty()) {
      read_zip();
      read_exclude();
      read_include();
    } else {
      refuse_choice_of_elements();
    }
    matrix_.max_parallel = value_.value("max_parallel", 0);
    matrix_.pack = value_.value("pack", 1);
    if (matrix_.empty()) mistakes_.add(node_.location, subject_.name() + " has no axis");
    return std::move(matrix_);
  }

 private:
  /// Locates element `index` of the list under `key`, or the list if an expression gave it.
  Location location(const std::string& key, size_t index) const {
    const YamlEntry* entry = find_entry(node_, key);
    const auto& elements = entry->value->entries;
    return index < elements.size() ? elements[index].location : entry->value->location;
  }

  void check_distinct(const YamlEntry& entry) {
    std::set<Json> seen;
    const auto& values = matrix_.axes.back().values;
    for (size_t i = 0; i < values.size(); ++i) {
      if (seen.insert(values[i]).second) continue;
      mistakes_.add(location(entry.key, i),
                    subject_.at(entry.key).name() + " holds " + shown_value(values[i]) +
                        " twice; remove one, or write repeat: N to run each several times");
    }
  }

  /// Mappings of an axis must have the same keys, and distinct names if they have names.
  void check_mappings(const YamlEntry& entry) {
    const auto& values = matrix_.axes.back().values;
    if (values.empty()) return;
    std::set<std::string> names;
    for (size_t i = 0; i < values.size(); ++i) {
      const Location at = location(entry.key, i);
      if (!have_same_keys(values.front(), values[i])) {
        mistakes_.add(at, "this value of " + subject_.at(entry.key).name() +
                              " has other keys than the first one; give all the same keys");
      }
      const bool has_name = values[i].is_object() && values[i].contains(kElementName);
      if (!has_name || names.insert(shown_value(values[i].at(kElementName))).second) continue;
      mistakes_.add(at, "two values of " + subject_.at(entry.key).name() + " are called '" +
                            shown_value(values[i].at(kElementName)) + "'; rename one");
    }
    if (!values.front().is_object()) return;
    for (const auto& [key, value] : values.front().items()) {
      check_variable(entry.key + "_" + key, entry.key + "." + key, entry.location);
    }
  }

  static bool have_same_keys(const Json& first, const Json& other) {
    if (!first.is_object() || !other.is_object()) return first.is_object() == other.is_object();
    return first.size() == other.size() &&
           std::all_of(first.items().begin(), first.items().end(),
                       [&](const auto& item) { return other.contains(item.key()); });
  }

  void check_variable(const std::string& key, const std::string& name, Location at) {
    const std::string variable = environment_name("DLFLOW_MATRIX_", key);
    const auto [first, is_new] = variables_.emplace(variable, name);
    if (is_new) return;
    mistakes_.add(at, "axes '" + first->second + "' and '" + name + "' would both be $" + variable +
                          "; rename one");
  }

  /// zip, include and exclude select elements and thus need their values.
  void refuse_choice_of_elements() {
    for (const char* key : {"zip", "include", "exclude"}) {
      const YamlEntry* entry = find_entry(node_, key);
      if (entry == nullptr) continue;
      mistakes_.add(
          entry->location,
          subject_.at(key).name() + " cannot be combined with axis '" + sources_.begin()->first +
              "', whose values a step computes; leave it out, and let that step list all elements");
    }
  }

  void read_zip() {
    if (!value_.contains("zip")) return;
    const MatrixAxis* first = nullptr;
    for (const Json& name : value_.at("zip")) {
      const Location at = location("zip", matrix_.zip.size());
      const std::string word = name.get<std::string>();
      const auto axis = std::ranges::find(matrix_.axes, word, &MatrixAxis::name);
      if (axis == matrix_.axes.end()) {
        report_no_axis(at, word);
      } else if (std::ranges::find(matrix_.zip, word) != matrix_.zip.end()) {
        mistakes_.add(at, "'" + word + "' occurs twice; remove one");
      } else if (first != nullptr && axis->values.size() != first->values.size()) {
        mistakes_.add(at, "axes of zip must have the same number of values: '" + first->name +
                              "' has " + std::to_string(first->values.size()) + ", '" + word +
                              "' has " + std::to_string(axis->values.size()));
      }
      if (first == nullptr && axis != matrix_.axes.end()) first = &*axis;
      matrix_.zip.push_back(word);
    }
  }

  void read_exclude() {
    if (!value_.contains("exclude")) return;
    for (const Json& pattern : value_.at("exclude")) {
      const Location at = location("exclude", matrix_.exclude.size());
      for (const auto& [axis, value] : pattern.items()) check_excluded(at, axis, value);
      if (pattern.empty()) mistakes_.add(at, "this leaves out every element");
      matrix_.exclude.push_back(pattern);
    }
  }

  void check_excluded(Location at, const std::string& axis, const Json& value) {
    const auto known = std::ranges::find(matrix_.axes, axis, &MatrixAxis::name);
    if (known == matrix_.axes.end()) return report_no_axis(at, axis);
    const auto has_value = [&value](const Json& one) { return is_part_of(value, one); };
    if (std::ranges::any_of(known->values, has_value)) return;
    mistakes_.add(at, "axis '" + axis + "' does not have the value " + shown_value(value) +
                          ", so nothing is left out; remove this entry");
  }

  void report_no_axis(Location at, const std::string& axis) {
    mistakes_.add(at, "the matrix has no axis '" + axis + "'" +
                          mistakes_.advice_or_list(axis, axis_names(matrix_)));
  }

  void read_include() {
    if (!value_.contains("include")) return;
    for (const Json& element : value_.at("include")) {
      const Location at = location("include", matrix_.include.size());
      matrix_.include.push_back(element);
      check_included(at, element);
    }
  }

  void check_included(Location at, const Json& element) {
    std::vector<std::string> axes = axis_names(matrix_);
    for (const auto& [key, value] : element.items()) {
      if (std::ranges::find(axes, key) == axes.end()) report_no_axis(at, key);
    }
    for (const std::string& axis : axes) {
      if (element.contains(axis)) continue;
      mistakes_.add(at,
                    "this element has no value for axis '" + axis + "'; write " + axis + ": VALUE");
    }
    if (element.empty()) mistakes_.add(at, "this element has no values");
    if (is_there(element)) mistakes_.add(at, "this element already exists; remove one");
    included_.insert(element);
  }

  /// Whether the product of the axes, or an earlier `include`, has this element.
  bool is_there(const Json& element) const {
    if (included_.contains(element)) return true;
    return is_in_product(matrix_, element) && !is_excluded(matrix_, element);
  }

  const YamlNode& node_;
  const Json& value_;
  const Sources& sources_;
  const Shape& shape_;
  Mistakes& mistakes_;
  const Subject& subject_;
  Matrix matrix_;
  std::set<Json> included_;
  std::map<std::string, std::string> variables_;  // environment variable -> axis
};

/// Whether `exclude` removes all elements.
bool has_no_element(const Matrix& matrix) {
  return !matrix.exclude.empty() && matrix.include.empty() && matrix_elements(matrix).empty();
}

std::string refusal(size_t count, ElementAllowance allowance, const Subject& subject) {
  const std::string number = count == SIZE_MAX ? "countless" : format_count(count);
  const std::string total =
      allowance.used == 0 || count == SIZE_MAX
          ? ""
          : ", " + format_count(count + allowance.used) + " with those of the steps above it";
  return subject.name() + " has " + number + " elements" + total + "; a workflow may have " +
         format_count(allowance.most);
}

}  // namespace

bool check_allowance(const Matrix& matrix, Mistakes& mistakes, const Subject& subject,
                     Location location, ElementAllowance allowance) {
  const size_t count = max_elements(matrix);
  if (count <= allowance.most - allowance.used) return true;
  mistakes.add(location, refusal(count, allowance, subject));
  return false;
}

std::optional<Matrix> read_matrix(const YamlNode& node, Mistakes& mistakes, const Names& names,
                                  const Subject& subject, ElementAllowance allowance,
                                  std::vector<Reference>& references) {
  const size_t before = mistakes.count();
  Checker checker(mistakes, names);
  const Shape& shape = find_field(step_shape(), "matrix")->shape;
  YamlNode known = node;
  for (const YamlEntry& entry : node.entries) {
    if (entry.key != kRepeatAxis || !entry.value->scalar.is_number_integer()) continue;
    mistakes.add(entry.location,
                 "the number of repetitions stands beside `matrix:`; write repeat: " +
                     entry.value->scalar.dump() + " there");
    return std::nullopt;
  }
  const Sources sources = take_sources(known, shape, mistakes, subject, references);
  const auto value = checker.check(known, shape, Scope::Params, subject);
  if (!value) return std::nullopt;
  Matrix matrix = MatrixReader(node, *value, sources, shape, mistakes, subject).read();
  if (mistakes.count() != before) return std::nullopt;
  if (!check_allowance(matrix, mistakes, subject, node.location, allowance)) return std::nullopt;
  if (has_no_element(matrix)) {
    mistakes.add(node.location,
                 "exclude leaves no element of " + subject.name() + "; remove one of its entries");
    return std::nullopt;
  }
  return matrix;
}

}  // namespace dlflow
