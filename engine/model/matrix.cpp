#include <algorithm>
#include <cstdint>

#include "engine/model/expression_functions.h"
#include "engine/model/workflow.h"

namespace dlflow {
namespace {

/// Whether `element` has all values of `pattern`.
bool matches(const Json& element, const Json& pattern) {
  return std::all_of(pattern.items().begin(), pattern.items().end(), [&](const auto& item) {
    const auto found = element.find(item.key());
    return found != element.end() && *found == item.value();
  });
}

/// Moves to the next combination, the last axis fastest; false after the last one.
bool advance(const Matrix& matrix, std::vector<size_t>& position) {
  for (size_t axis = position.size(); axis-- > 0;) {
    if (++position[axis] < matrix.axes[axis].values.size()) return true;
    position[axis] = 0;
  }
  return false;
}

}  // namespace

bool is_excluded(const Matrix& matrix, const Json& element) {
  return std::any_of(matrix.exclude.begin(), matrix.exclude.end(),
                     [&](const Json& pattern) { return matches(element, pattern); });
}

std::vector<Json> matrix_elements(const Matrix& matrix) {
  std::vector<Json> elements;
  if (matrix.empty()) return {Json::object()};
  if (!matrix.axes.empty()) {
    std::vector<size_t> position(matrix.axes.size(), 0);
    elements.reserve(max_elements(matrix));
    do {
      Json element = Json::object();
      for (size_t axis = 0; axis < position.size(); ++axis) {
        element[matrix.axes[axis].name] = matrix.axes[axis].values[position[axis]];
      }
      if (!is_excluded(matrix, element)) elements.push_back(std::move(element));
    } while (advance(matrix, position));
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

size_t max_elements(const Matrix& matrix) {
  size_t count = matrix.axes.empty() ? 0 : 1;
  for (const MatrixAxis& axis : matrix.axes) {
    if (__builtin_mul_overflow(count, axis.values.size(), &count)) return SIZE_MAX;
  }
  if (__builtin_add_overflow(count, matrix.include.size(), &count)) return SIZE_MAX;
  return count;
}

std::string element_label(const Json& element) {
  constexpr std::string_view kUsable =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789=,.+-_";
  std::string label;
  for (const auto& [axis, value] : element.items()) {
    if (!label.empty()) label += ',';
    label += axis + "=" + text_of(value);
  }
  for (char& c : label) {
    if (kUsable.find(c) == kUsable.npos) c = '_';
  }
  return label;
}

}  // namespace dlflow
