#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "base/random.h"

namespace dlflow::test {

/// Numbers like gradients: most are near zero, few are large, none is zero.
inline std::vector<float> some_gradients(size_t count, uint32_t of_whom, uint32_t step = 0) {
  RandomStream random(7, RandomUse::Initialization, of_whom, step);
  std::vector<float> gradients;
  for (size_t i = 0; i < count; ++i) {
    const float u = random.uniform() - 0.5f;
    gradients.push_back(std::copysign(std::exp(8 * std::fabs(u)) * 1e-3f, u));
  }
  return gradients;
}

/// The largest difference of two numbers.
inline double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double greatest = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    greatest = std::fmax(greatest, std::fabs(double(a[i]) - double(b[i])));
  }
  return greatest;
}

}  // namespace dlflow::test
