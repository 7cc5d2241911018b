#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "runtime/nn/huge_buffer.h"
#include "runtime/nn/weight_layout.h"
#include "tests/support/reference/reference_network.h"

/// The inputs of a network under test, and the distance of its results from the expected ones.
namespace dlflow::test {

inline std::vector<float> to_floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

/// |a - b| / |b|, or |a| if b is zero.
inline double distance(std::span<const float> a, std::span<const double> b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(norm > 1e-20 ? difference / norm : difference);
}

inline runtime::HugeBuffer load(const runtime::WeightLayout& layout,
                                const runtime::reference::NamedTensors& weights) {
  runtime::HugeBuffer buffer(layout.size());
  for (size_t i = 0; i < layout.parameters().size(); ++i) {
    const std::vector<double>& values = weights.at(layout.parameters()[i].name).values;
    layout.from_plain(to_floats(values), buffer.floats(), i);
  }
  return buffer;
}

/// bf16 has an error of 4e-3 per number, to which each layer adds.
constexpr double kBFloat16Tolerance = 5e-2;

}  // namespace dlflow::test
