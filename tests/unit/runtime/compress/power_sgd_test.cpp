#include "runtime/compress/power_sgd.h"

#include <algorithm>

#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"
#include "tests/unit/runtime/compress/gradients.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;

namespace {

/// A matrix stored row by row.
Matrix plain_matrix(size_t first, uint32_t rows, uint32_t columns) {
  Matrix matrix{first, {}, {}};
  for (uint32_t r = 0; r < rows; ++r) matrix.rows.push_back(r * columns);
  for (uint32_t c = 0; c < columns; ++c) matrix.columns.push_back(c);
  return matrix;
}

struct Outcome {
  std::vector<float> sum, error;
};

/// Runs `steps` steps over `num_ranks` ranks with the gradients `gradient(rank, step)`. Returns the
/// sums of all steps, and each rank's residual.
template <typename Gradient>
std::vector<Outcome> outcomes(int num_ranks, const std::vector<Matrix>& matrices, size_t rank,
                              uint32_t steps, Gradient gradient) {
  return on_ranks(num_ranks, [&](Communicator& comm) {
    PowerSgd power_sgd(matrices, rank, 1);
    Outcome outcome;
    for (uint32_t step = 0; step < steps; ++step) {
      std::vector<float> values = gradient(uint32_t(comm.rank()), step);
      outcome.sum.resize(values.size());
      outcome.error.resize(values.size());
      run(comm, power_sgd.sum(Link(comm), 0, values, outcome.error, step));
      for (size_t i = 0; i < values.size(); ++i) outcome.sum[i] += values[i];
    }
    return outcome;
  });
}

}  // namespace

TEST_CASE("columns become orthonormal, and dependent ones become zero", "[compress]") {
  constexpr size_t kRows = 37;
  std::vector<float> columns = some_gradients(3 * kRows, 1);
  for (size_t i = 0; i < kRows; ++i) columns[2 * kRows + i] = 3 * columns[i] - columns[kRows + i];
  orthogonalize(columns, kRows);
  const auto product = [&](size_t a, size_t b) {
    double sum = 0;
    for (size_t i = 0; i < kRows; ++i) {
      sum += double(columns[a * kRows + i]) * double(columns[b * kRows + i]);
    }
    return sum;
  };
  CHECK(product(0, 0) == Approx(1));
  CHECK(product(1, 1) == Approx(1));
  CHECK(std::fabs(product(0, 1)) < 1e-6);
  CHECK(product(2, 2) == 0);
  std::vector<float> zero(kRows);
  orthogonalize(zero, kRows);
  CHECK(zero == std::vector<float>(kRows));
}

TEST_CASE("matrices of the requested rank are sent without loss", "[compress]") {
  const int num_ranks = GENERATE(1, 2, 3, 4, 5, 8);
  constexpr uint32_t kRows = 23, kColumns = 41;
  const auto gradient = [&](uint32_t rank, uint32_t) {  // the same two columns with other factors
    const auto left = some_gradients(2 * kRows, 100), right = some_gradients(2 * kColumns, rank);
    std::vector<float> product(kRows * kColumns);
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t c = 0; c < kColumns; ++c) {
        product[r * kColumns + c] =
            100 * (left[r] * right[c] + left[kRows + r] * right[kColumns + c]);
      }
    }
    return product;
  };
  std::vector<float> expected(kRows * kColumns);
  for (int rank = 0; rank < num_ranks; ++rank) {
    const auto product = gradient(uint32_t(rank), 0);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += product[i];
  }
  const auto ranks = outcomes(num_ranks, {plain_matrix(0, kRows, kColumns)}, 2, 1, gradient);
  CHECK(distance(ranks[0].sum, expected) < 1e-5);
  for (const Outcome& rank : ranks) {
    CHECK(rank.sum == ranks[0].sum);
    CHECK(distance(rank.error, std::vector<float>(expected.size())) < 1e-5);
  }
}

TEST_CASE("PowerSGD's sums and residuals add up to all gradients", "[compress]") {
  const int num_ranks = GENERATE(1, 2, 3, 5, 8);
  const size_t rank = GENERATE(1, 2, 100);
  // Two matrices, one with only two columns, and padding that must not change.
  const std::vector<Matrix> matrices = {plain_matrix(0, 20, 30), plain_matrix(608, 40, 2)};
  constexpr size_t kCount = 700;
  constexpr uint32_t kSteps = 10;
  const auto gradient = [&](uint32_t of_rank, uint32_t step) {
    std::vector<float> values = some_gradients(kCount, of_rank, step);
    for (size_t i = 0; i < kCount; ++i) {
      if ((i >= 600 && i < 608) || i >= 688) values[i] = 0;
    }
    return values;
  };
  std::vector<float> expected(kCount);
  for (uint32_t step = 0; step < kSteps; ++step) {
    for (int r = 0; r < num_ranks; ++r) {
      const auto values = gradient(uint32_t(r), step);
      for (size_t i = 0; i < kCount; ++i) expected[i] += values[i];
    }
  }
  const auto ranks = outcomes(num_ranks, matrices, rank, kSteps, gradient);
  std::vector<float> all = ranks[0].sum;
  for (const Outcome& of_rank : ranks) {
    CHECK(of_rank.sum == ranks[0].sum);
    for (size_t i = 0; i < kCount; ++i) all[i] += of_rank.error[i];
  }
  CHECK(distance(all, expected) < 2e-5);
}

TEST_CASE("a matrix may be stored column by column", "[compress]") {
  constexpr uint32_t kRows = 9, kColumns = 14;
  Matrix transposed{0, {}, {}};
  for (uint32_t r = 0; r < kRows; ++r) transposed.rows.push_back(r);
  for (uint32_t c = 0; c < kColumns; ++c) transposed.columns.push_back(c * kRows);
  const auto plain = [](uint32_t rank, uint32_t step) {
    return some_gradients(kRows * kColumns, rank, step);
  };
  const auto turn = [](const std::vector<float>& values) {
    std::vector<float> turned(values.size());
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t c = 0; c < kColumns; ++c) turned[c * kRows + r] = values[r * kColumns + c];
    }
    return turned;
  };
  const auto expected = outcomes(2, {plain_matrix(0, kRows, kColumns)}, 2, 3, plain);
  const auto ranks = outcomes(
      2, {transposed}, 2, 3, [&](uint32_t rank, uint32_t step) { return turn(plain(rank, step)); });
  CHECK(ranks[0].sum == turn(expected[0].sum));
  CHECK(ranks[1].error == turn(expected[1].error));
}

TEST_CASE("PowerSGD draws its first columns from the seed, with both signs", "[compress]") {
  // A single column is the drawn one with another length: the sum shows it on all ranks.
  constexpr uint32_t kColumns = 200;
  std::vector<float> gradient(2 * kColumns);
  for (uint32_t c = 0; c < kColumns; ++c) {
    gradient[c] = 1;                                     // the first row: the mean of the column
    gradient[kColumns + c] = c < kColumns / 2 ? 1 : -1;  // the second: the difference of its halves
  }
  const auto sum_with = [&](uint64_t seed) {
    return on_ranks(2, [&](Communicator& comm) {
      PowerSgd power_sgd({plain_matrix(0, 2, kColumns)}, 1, seed);
      std::vector<float> values = gradient, error(values.size());
      run(comm, power_sgd.sum(Link(comm), 0, values, error, 0));
      return values;
    });
  };
  int second_counts = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto ranks = sum_with(seed);
    CHECK(ranks[0] == ranks[1]);
    CHECK(ranks[0] == sum_with(seed)[0]);
    CHECK(ranks[0] != sum_with(seed + 100)[0]);
    const double first = std::fabs(ranks[0][0]), second = std::fabs(ranks[0][kColumns]);
    second_counts += second > first ? 1 : 0;
  }
  // Either can be larger by chance; if all columns were positive, the mean would always be.
  CHECK(second_counts >= 2);
  CHECK(second_counts <= 18);
}

TEST_CASE("PowerSGD sends gradients again after a step of zeros", "[compress]") {
  const auto gradient = [](uint32_t rank, uint32_t step) {
    return step == 0 ? std::vector<float>(100) : some_gradients(100, rank, step);
  };
  const auto ranks = outcomes(2, {plain_matrix(0, 10, 10)}, 1, 2, gradient);
  CHECK(distance(ranks[0].sum, std::vector<float>(100)) > 1e-3);
}

TEST_CASE("an infinite gradient reaches every rank", "[compress]") {
  const auto gradient = [](uint32_t rank, uint32_t) {
    std::vector<float> values = some_gradients(100, rank);
    if (rank == 1) values[37] = INFINITY;
    return values;
  };
  for (const Outcome& rank : outcomes(3, {plain_matrix(0, 10, 10)}, 2, 1, gradient)) {
    CHECK(std::ranges::any_of(rank.sum, [](float value) { return !std::isfinite(value); }));
  }
}
