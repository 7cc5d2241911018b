#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "engine/model/expression_functions.h"
#include "engine/model/workflow.h"

namespace dlflow {
namespace {

/// Stands in an element's label for a value that a step has not decided yet.
constexpr char kNotKnown = '?';

/// Moves to the next combination, with the last position fastest; false after the last one.
bool advance(const std::vector<size_t>& sizes, std::vector<size_t>& position) {
  for (size_t place = position.size(); place-- > 0;) {
    if (++position[place] < sizes[place]) return true;
    position[place] = 0;
  }
  return false;
}

bool is_zipped(const Matrix& matrix, const std::string& axis) {
  return std::find(matrix.zip.begin(), matrix.zip.end(), axis) != matrix.zip.end();
}

/// Maps axes to positions of a combination: one position for each axis, and one for all zipped
/// axes, at the first of them.
struct Places {
  std::vector<size_t> sizes;
  std::vector<size_t> of_axis;  // by axis
};

Places places_of(const Matrix& matrix) {
  Places places;
  std::optional<size_t> zipped;
  for (const MatrixAxis& axis : matrix.axes) {
    const bool follows = zipped && is_zipped(matrix, axis.name);
    places.of_axis.push_back(follows ? *zipped : places.sizes.size());
    if (follows) continue;
    if (is_zipped(matrix, axis.name)) zipped = places.sizes.size();
    places.sizes.push_back(axis.values.size());
  }
  return places;
}

/// Returns "lr=0.1", or the label of a mapping.
std::string label_of(const std::string& axis, const Json& value) {
  if (value.is_null()) return axis + "=" + kNotKnown;
  if (!value.is_object()) return axis + "=" + shown_value(value);
  const auto name = value.find(kElementName);
  if (name != value.end() && !name->is_structured()) return axis + "=" + text_of(*name);
  std::string label;
  for (const auto& [key, inner] : value.items()) {
    label += (label.empty() ? "" : ",") + axis + "." + key + "=" + shown_value(inner);
  }
  return label;
}

}  // namespace

bool has_open_axis(const Matrix& matrix) {
  return std::ranges::any_of(matrix.axes, &MatrixAxis::is_open);
}

bool takes_list(const Matrix& matrix) {
  return std::ranges::any_of(matrix.axes,
                             [](const MatrixAxis& axis) { return axis.source.has_value(); });
}

bool takes_list_of(const Matrix& matrix, std::string_view source) {
  return std::ranges::any_of(matrix.axes, [&](const MatrixAxis& axis) {
    return axis.source && axis.source->step == source;
  });
}

bool is_part_of(const Json& part, const Json& value) {
  if (!part.is_object() || !value.is_object()) return part == value;
  return std::all_of(part.items().begin(), part.items().end(), [&](const auto& item) {
    const auto found = value.find(item.key());
    return found != value.end() && is_part_of(item.value(), *found);
  });
}

bool is_excluded(const Matrix& matrix, const Json& element) {
  return std::any_of(matrix.exclude.begin(), matrix.exclude.end(),
                     [&](const Json& pattern) { return is_part_of(pattern, element); });
}

bool is_in_product(const Matrix& matrix, const Json& element) {
  if (matrix.axes.empty() || element.size() != matrix.axes.size()) return false;
  std::optional<std::set<size_t>> zipped;  // indices at which all zipped axes so far match
  for (const MatrixAxis& axis : matrix.axes) {
    const auto value = element.find(axis.name);
    if (value == element.end()) return false;
    std::set<size_t> found;
    for (size_t i = 0; i < axis.values.size(); ++i) {
      const bool may_be_there = !is_zipped(matrix, axis.name) || !zipped || zipped->contains(i);
      if (may_be_there && axis.values[i] == *value) found.insert(i);
    }
    if (found.empty()) return false;
    if (is_zipped(matrix, axis.name)) zipped = std::move(found);
  }
  return true;
}

std::vector<Json> matrix_elements(const Matrix& matrix) {
  std::vector<Json> elements;
  if (matrix.empty()) return {Json::object()};
  if (!matrix.axes.empty()) {
    const Places places = places_of(matrix);
    std::vector<size_t> position(places.sizes.size(), 0);
    elements.reserve(max_elements(matrix));
    do {
      Json element = Json::object();
      for (size_t axis = 0; axis < matrix.axes.size(); ++axis) {
        element[matrix.axes[axis].name] = matrix.axes[axis].values[position[places.of_axis[axis]]];
      }
      if (!is_excluded(matrix, element)) elements.push_back(std::move(element));
    } while (advance(places.sizes, position));
  }
  elements.insert(elements.end(), matrix.include.begin(), matrix.include.end());
  return elements;
}

std::vector<std::string> axis_names(const Matrix& matrix) {
  std::vector<std::string> names;
  for (const MatrixAxis& axis : matrix.axes) names.push_back(axis.name);
  if (names.empty() && !matrix.include.empty()) {
    for (const auto& [key, value] : matrix.include.front().items()) names.push_back(key);
  }
  return names;
}

std::vector<Json> axis_values(const Matrix& matrix, const std::string& axis) {
  std::vector<Json> values;
  for (const MatrixAxis& candidate : matrix.axes) {
    if (candidate.name == axis) values = candidate.values;
  }
  for (const Json& element : matrix.include) values.push_back(element.at(axis));
  return values;
}

std::vector<std::string> axis_keys(const Matrix& matrix, const std::string& axis) {
  const std::vector<Json> values = axis_values(matrix, axis);
  std::vector<std::string> keys;
  if (values.empty() || !values.front().is_object()) return keys;
  for (const auto& [key, value] : values.front().items()) keys.push_back(key);
  return keys;
}

size_t max_elements(const Matrix& matrix) {
  size_t count = matrix.axes.empty() ? 0 : 1;
  for (const size_t size : places_of(matrix).sizes) {
    if (__builtin_mul_overflow(count, size, &count)) return SIZE_MAX;
  }
  if (__builtin_add_overflow(count, matrix.include.size(), &count)) return SIZE_MAX;
  return count;
}

std::string element_label(const Json& element) {
  const auto is_unusable = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) == 0 &&
           (c == 0 || std::strchr("=,.+-_", c) == nullptr);
  };
  std::string label;
  for (const auto& [axis, value] : element.items()) {
    if (!label.empty()) label += ',';
    const size_t begin = label.size();
    label += label_of(axis, value);
    if (value.is_null()) continue;
    std::replace_if(label.begin() + ptrdiff_t(begin), label.end(), is_unusable, '_');
  }
  return label;
}

}  // namespace dlflow
