#include "runtime/nn/linear_kernel.h"

#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

std::vector<float> random_numbers(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> numbers(static_cast<size_t>(count));
  for (float& number : numbers) number = uniform(random);
  return numbers;
}

/// The expected value for one sample, in double precision.
double expected_at(const ProductShape& shape, const std::vector<float>& weight,
                   std::span<const float> dy, int64_t row) {
  double sum = 0;
  for (int64_t c = 0; c < shape.columns; ++c) {
    const int64_t at = (c / shape.group * shape.rows + row) * shape.group + c % shape.group;
    sum += double(weight[size_t(at)]) * double(dy[size_t(c)]);
  }
  return sum;
}

}  // namespace

TEST_CASE("the input gradient of a linear layer is dy W, separately for each sample", "[linear]") {
  const int64_t group = GENERATE(64, 128);
  const ProductShape shape{0, 48, 256, group};
  const int64_t samples = GENERATE(1, 7, 16, 17, 32);
  const auto columns = size_t(shape.columns), rows = size_t(shape.rows);
  const std::vector<float> weight = random_numbers(shape.rows * shape.columns, 1);
  const std::vector<float> dy = random_numbers(samples * shape.columns, 2);
  std::vector<float> dx(size_t(samples) * rows + 1, -7.0f);
  linear_backward_data(shape, weight.data(), dy.data(), samples, dx.data());

  CHECK(dx.back() == -7.0f);  // nothing is written beyond the end
  double largest = 0;
  for (size_t s = 0; s < size_t(samples); ++s) {
    const std::span<const float> of_sample(dy.data() + s * columns, columns);
    for (size_t r = 0; r < rows; ++r) {
      const double expected = expected_at(shape, weight, of_sample, int64_t(r));
      largest = std::max(largest, std::abs(double(dx[s * rows + r]) - expected));
    }
    std::vector<float> alone(rows);
    linear_backward_data(shape, weight.data(), of_sample.data(), 1, alone.data());
    CHECK(std::ranges::equal(alone, std::span(dx).subspan(s * rows, rows)));
  }
  CHECK(largest < 1e-4);
  CHECK(largest > 0);
}

TEST_CASE("other groups of weights and other leaf sizes are left to oneDNN", "[linear]") {
  CHECK(has_linear_backward_data({0, 48, 256, 64}, 16));
  CHECK(has_linear_backward_data({0, 48, 256, 128}, 32));
  CHECK_FALSE(has_linear_backward_data({0, 48, 192, 192}, 16));
  CHECK_FALSE(has_linear_backward_data({0, 48, 256, 64}, 8));
  CHECK_FALSE(has_linear_backward_data({0, 48, 256, 64}, 33));
}
