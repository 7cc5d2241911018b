#include <algorithm>
#include <cmath>

#include "runtime/onnx/element.h"
#include "runtime/onnx/operations.h"

/// What exporters compute before anything is known of a sample: sizes, scales and masks.
namespace dlflow::runtime {
namespace {

constexpr int64_t kMaxConstant = int64_t{1} << 26;  // numbers

bool is_whole(const OnnxTensor& constant) { return constant.floats.empty(); }

float at(const OnnxTensor& constant, size_t i) {
  if (!is_whole(constant)) return constant.floats[i];
  if (constant.integers[i] >= kBatch) refuse("it computes with the number of samples");
  return float(constant.integers[i]);
}

int64_t whole_result(const std::string& operation, int64_t a, int64_t b) {
  int64_t result = 0;
  bool is_beyond = false;
  if (operation == "Add") {
    is_beyond = __builtin_add_overflow(a, b, &result);
  } else if (operation == "Sub") {
    is_beyond = __builtin_sub_overflow(a, b, &result);
  } else if (operation == "Mul") {
    is_beyond = __builtin_mul_overflow(a, b, &result);
  } else if (operation == "Equal") {
    result = a == b ? 1 : 0;
  } else {
    if (b <= 0 || a < 0) refuse("it divides whole numbers that are not positive");
    result = operation == "Mod" ? a % b : a / b;
  }
  if (is_beyond) refuse("its numbers are beyond what can be computed");
  return result;
}

float result_of(const std::string& operation, float a, float b) {
  if (operation == "Add") return a + b;
  if (operation == "Sub") return a - b;
  if (operation == "Mul") return a * b;
  if (operation == "Equal") return a == b ? 1 : 0;
  if (operation == "Mod") return std::fmod(a, b);
  if (operation == "Pow") return std::pow(a, b);
  return a / b;
}

/// Of two shapes, one of which is that of a single number, or both are equal.
const OnnxTensor& larger(const OnnxTensor& a, const OnnxTensor& b) {
  if (a.size() != 1 && b.size() != 1 && a.shape != b.shape)
    refuse("it computes with constants of two shapes");
  const bool is_first = a.size() != 1 || (b.size() == 1 && a.shape.size() >= b.shape.size());
  return is_first ? a : b;
}

size_t repeated(const OnnxTensor& constant, size_t i) { return constant.size() == 1 ? 0 : i; }

}  // namespace

bool compute_constants(NodeReader& node) {
  if (!node.is_constant(0) || !node.is_constant(1)) return false;
  const OnnxTensor &a = node.constant(0), &b = node.constant(1);
  OnnxTensor result{larger(a, b).shape, {}, {}};
  const size_t count = larger(a, b).size();
  for (size_t i = 0; i < count; ++i) {
    const size_t j = repeated(a, i), k = repeated(b, i);
    if (is_whole(a) && is_whole(b) && node.operation() != "Pow") {
      result.integers.push_back(whole_result(node.operation(), a.integers[j], b.integers[k]));
    } else {
      result.floats.push_back(result_of(node.operation(), at(a, j), at(b, k)));
    }
  }
  node.give_constant(std::move(result));
  return true;
}

void read_constant_operation(NodeReader& node) {
  if (!compute_constants(node)) refuse("dlflow has it of constants alone");
}

void root_of_constant(NodeReader& node) {
  OnnxTensor result{node.constant(0).shape, {}, {}};
  for (size_t i = 0; i < node.constant(0).size(); ++i)
    result.floats.push_back(std::sqrt(at(node.constant(0), i)));
  node.give_constant(std::move(result));
}

void cast_constant(NodeReader& node) {
  const OnnxTensor& from = node.constant(0);
  const int64_t type = node.integer("to", 0);
  const auto is = [&](std::initializer_list<Element> elements) {
    return std::ranges::count(elements, Element(type)) > 0;
  };
  OnnxTensor to{from.shape, {}, {}};
  if (is({Element::Float, Element::Float16, Element::Double, Element::BFloat16})) {
    for (size_t i = 0; i < from.size(); ++i) to.floats.push_back(at(from, i));
  } else if (is({Element::Int32, Element::Int64}) && !is_whole(from)) {
    for (const float number : from.floats) {
      if (!(std::abs(number) < 1e15f)) refuse("its numbers are beyond whole ones");
      to.integers.push_back(int64_t(number));
    }
  } else {
    to = from;
  }
  node.give_constant(std::move(to));
}

void slice_constant(NodeReader& node, const std::vector<int64_t>& begins,
                    const std::vector<int64_t>& ends, const std::vector<int64_t>& axes) {
  const OnnxTensor& from = node.constant(0);
  const bool is_list = from.shape.size() == 1 && begins.size() == 1 && ends.size() == 1 &&
                       (axes.empty() || axes == std::vector<int64_t>{0});
  if (!is_list) refuse("it takes parts of a constant that is no list");
  const auto size = int64_t(from.size());
  const int64_t begin = slice_bound(begins[0], size),
                end = std::max(begin, slice_bound(ends[0], size));
  OnnxTensor part{{end - begin}, {}, {}};
  if (is_whole(from)) {
    part.integers.assign(from.integers.begin() + begin, from.integers.begin() + end);
  } else {
    part.floats.assign(from.floats.begin() + begin, from.floats.begin() + end);
  }
  node.give_constant(std::move(part));
}

void read_constant_of_shape(NodeReader& node) {
  OnnxTensor number{{1}, {0}, {}};
  if (node.has_setting("value")) number = node.constant_setting();
  if (number.size() != 1) refuse("its value is no number");
  fill_constant(node, number, node.integers(0));
}

void fill_constant(NodeReader& node, const OnnxTensor& number, std::vector<int64_t> sizes) {
  if (sizes.empty()) sizes = {1};
  int64_t count = 1;
  for (const int64_t size : sizes) {
    if (size < 1 || size > kMaxConstant / count)
      refuse("it makes a constant of the batch, or of more than 2^26 numbers");
    count *= size;
  }
  OnnxTensor filled{std::move(sizes), {}, {}};
  if (is_whole(number)) {
    filled.integers.assign(size_t(count), number.integers[0]);
  } else {
    filled.floats.assign(size_t(count), number.floats[0]);
  }
  node.give_constant(std::move(filled));
}

/// Of a square: what is above or below a diagonal becomes 0.
void read_trilu(NodeReader& node) {
  OnnxTensor matrix = node.constant(0);
  const size_t rank = matrix.shape.size();
  if (rank < 2 || int64_t(matrix.size()) != matrix.shape[rank - 1] * matrix.shape[rank - 2])
    refuse("dlflow has it of one matrix alone");
  const int64_t rows = matrix.shape[rank - 2], columns = matrix.shape[rank - 1];
  const bool is_upper = node.integer("upper", 1) != 0;
  const int64_t diagonal = node.has(1) && node.integers(1).size() == 1 ? node.integers(1)[0] : 0;
  if (std::abs(double(diagonal)) > 1e6) refuse("its diagonal is far outside");
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      if (is_upper ? j >= i + diagonal : j <= i + diagonal) continue;
      const auto index = size_t(i * columns + j);
      is_whole(matrix) ? void(matrix.integers[index] = 0) : void(matrix.floats[index] = 0);
    }
  }
  node.give_constant(std::move(matrix));
}

void choose_constants(NodeReader& node) {
  const OnnxTensor &condition = node.constant(0), &a = node.constant(1), &b = node.constant(2);
  const OnnxTensor& shape = larger(condition, larger(a, b));
  OnnxTensor result{shape.shape, {}, {}};
  for (size_t i = 0; i < shape.size(); ++i) {
    const OnnxTensor& from = at(condition, repeated(condition, i)) != 0 ? a : b;
    const size_t j = repeated(from, i);
    is_whole(a) && is_whole(b) ? result.integers.push_back(from.integers[j])
                               : result.floats.push_back(at(from, j));
  }
  node.give_constant(std::move(result));
}

}  // namespace dlflow::runtime
