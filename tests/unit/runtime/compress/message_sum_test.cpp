// Tests every way to add compressed gradients, on threads, against a dense sum.
#include "runtime/compress/message_sum.h"

#include <algorithm>
#include <functional>
#include <string>

#include "runtime/compress/compression.h"
#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"
#include "tests/unit/runtime/compress/gradients.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;

namespace {

using Way = Task (*)(Link, const Compressor&, Occasion, Unsent, std::span<float>);

struct Case {
  std::string name;
  CompressionMethod method;
  Way way;
};

const std::vector<Case> kSparse = {
    {"top-k, all-gather", CompressionMethod::TopK, sum_of_all_messages},
    {"MSTopK, all-gather", CompressionMethod::MsTopK, sum_of_all_messages},
    {"top-k, gTop-k", CompressionMethod::TopK, sum_of_global_top},
    {"MSTopK, gTop-k", CompressionMethod::MsTopK, sum_of_global_top},
    {"random-k", CompressionMethod::RandomK, sum_of_added_messages},
};
const std::vector<Case> kRounding = {
    {"fp16", CompressionMethod::Float16, sum_of_shares},
    {"bf16", CompressionMethod::BFloat16, sum_of_shares},
    {"int8", CompressionMethod::Int8, sum_of_shares},
};

struct Outcome {
  std::vector<float> sum, error;
};

/// The result of each rank after one step of `some_gradients`.
std::vector<Outcome> outcomes(const Case& c, int num_ranks, size_t count, double density) {
  return on_ranks(num_ranks, [&](Communicator& comm) {
    const auto compressor = make_compressor(c.method);
    Outcome outcome{std::vector<float>(count), some_gradients(count, uint32_t(comm.rank()))};
    const Occasion occasion{.seed = 1, .step = 2, .first = 0, .density = density};
    run(comm, c.way(Link(comm), *compressor, occasion, {outcome.error, {}}, outcome.sum));
    return outcome;
  });
}

std::vector<float> dense_sum_of(int num_ranks, size_t count) {
  std::vector<double> sum(count);
  for (int rank = 0; rank < num_ranks; ++rank) {
    const auto gradients = some_gradients(count, uint32_t(rank));
    for (size_t i = 0; i < count; ++i) sum[i] += double(gradients[i]);
  }
  return {sum.begin(), sum.end()};
}

std::vector<float> sum_and_errors(const std::vector<Outcome>& ranks) {
  std::vector<double> all(ranks[0].sum.begin(), ranks[0].sum.end());
  for (const Outcome& rank : ranks) {
    for (size_t i = 0; i < all.size(); ++i) all[i] += double(rank.error[i]);
  }
  return {all.begin(), all.end()};
}

void check_same_on_all(const std::vector<Outcome>& ranks) {
  for (const Outcome& rank : ranks) CHECK(rank.sum == ranks[0].sum);
}

}  // namespace

TEST_CASE("a density of 1 gives the dense sum and no residual", "[compress]") {
  const Case c = GENERATE(from_range(kSparse));
  const int num_ranks = GENERATE(1, 2, 3, 4, 5, 8);
  const size_t count = GENERATE(1, 37, 1000);
  INFO(c.name);
  const auto ranks = outcomes(c, num_ranks, count, 1);
  check_same_on_all(ranks);
  CHECK(distance(ranks[0].sum, dense_sum_of(num_ranks, count)) < 1e-6);
  for (const Outcome& rank : ranks) CHECK(rank.error == std::vector<float>(count));
}

TEST_CASE("the sum and the residuals add up to the dense sum", "[compress]") {
  const Case c = GENERATE(from_range(kSparse), from_range(kRounding));
  const int num_ranks = GENERATE(1, 2, 3, 4, 5, 8);
  const size_t count = GENERATE(1, 37, 1000);
  const double density = GENERATE(0.01, 0.2);
  INFO(c.name);
  const auto ranks = outcomes(c, num_ranks, count, density);
  check_same_on_all(ranks);
  CHECK(distance(sum_and_errors(ranks), dense_sum_of(num_ranks, count)) < 1e-6);
}

TEST_CASE("a long range of rounded gradients is summed as short ones are", "[compress]") {
  const Case c = GENERATE(from_range(kRounding));
  const int num_ranks = GENERATE(1, 2, 3);
  // Parts of 2^18 numbers per rank; the last part is so short that most ranks have no share of it.
  const size_t count = size_t(num_ranks) * (size_t{2} << 18) + 37;
  INFO(c.name);
  const auto ranks = outcomes(c, num_ranks, count, 1);
  check_same_on_all(ranks);
  CHECK(distance(sum_and_errors(ranks), dense_sum_of(num_ranks, count)) < 1e-6);
}

TEST_CASE("gathered messages give the sum of each rank's largest gradients", "[compress]") {
  const int num_ranks = GENERATE(1, 2, 3, 4, 5, 8);
  constexpr size_t kCount = 500, kSent = 50;
  const auto ranks = outcomes(kSparse[0], num_ranks, kCount, 0.1);
  std::vector<float> expected(kCount);
  for (int rank = 0; rank < num_ranks; ++rank) {
    const auto gradients = some_gradients(kCount, uint32_t(rank));
    std::vector<float> sizes;
    for (const float g : gradients) sizes.push_back(std::fabs(g));
    std::ranges::nth_element(sizes, sizes.begin() + kSent - 1, std::greater());
    for (size_t i = 0; i < kCount; ++i) {
      if (std::fabs(gradients[i]) >= sizes[kSent - 1]) expected[i] += gradients[i];
    }
  }
  CHECK(ranks[0].sum == expected);
}

TEST_CASE("numbers that a global top-k drops keep their momentum", "[compress]") {
  const auto velocities = on_ranks(2, [](Communicator& comm) {
    const auto top = make_compressor(CompressionMethod::TopK);
    std::vector<float> sum(4), velocity(4, 1.0f), error(4, 0.1f);
    error[comm.rank() == 0 ? 0 : 2] = comm.rank() == 0 ? 5.0f : 3.0f;  // one number survives
    run(comm, sum_of_global_top(Link(comm), *top, {.density = 0.25}, {error, velocity}, sum));
    return velocity;
  });
  CHECK(velocities[0] == std::vector<float>{0, 1, 1, 1});
  CHECK(velocities[1] == std::vector<float>{1, 1, 1, 1});
}

TEST_CASE("a global top-k keeps as many numbers as one rank sends", "[compress]") {
  const int num_ranks = GENERATE(2, 3, 4, 5, 6, 7, 8);
  constexpr size_t kCount = 500, kSent = 50;
  const auto ranks = outcomes(kSparse[2], num_ranks, kCount, 0.1);
  CHECK(size_t(std::ranges::count_if(ranks[0].sum, [](float v) { return v != 0; })) == kSent);
}

TEST_CASE("a global top-k of two ranks gives the values computed by hand", "[compress]") {
  // Each rank sends its two largest; the two largest of their sum {5, 4, -6} stay; 4 goes back to
  // rank 0.
  const std::vector<std::vector<float>> gradients = {{5, 4, 1, 0}, {1, 0, -6, -2}};
  const auto ranks = on_ranks(2, [&](Communicator& comm) {
    Outcome outcome{std::vector<float>(4), gradients[size_t(comm.rank())]};
    const auto top = make_compressor(CompressionMethod::TopK);
    run(comm,
        sum_of_global_top(Link(comm), *top, {.density = 0.5}, {outcome.error, {}}, outcome.sum));
    return outcome;
  });
  check_same_on_all(ranks);
  CHECK(ranks[0].sum == std::vector<float>{5, 0, -6, 0});
  CHECK(ranks[0].error == std::vector<float>{0, 4, 1, 0});
  CHECK(ranks[1].error == std::vector<float>{1, 0, 0, -2});
}

TEST_CASE("sums of rounded gradients are as accurate as their rounding", "[compress]") {
  const int num_ranks = GENERATE(1, 2, 3, 8);
  constexpr size_t kCount = 1000;
  const std::vector<float> dense = dense_sum_of(num_ranks, kCount);
  const double greatest = double(*std::ranges::max_element(dense));
  const double tolerance[] = {0x1p-10, 0x1p-7, 1.2 / 127};  // each number and each sum, once
  for (size_t i = 0; i < kRounding.size(); ++i) {
    INFO(kRounding[i].name);
    const auto ranks = outcomes(kRounding[i], num_ranks, kCount, 1);
    CHECK(distance(ranks[0].sum, dense) < greatest * tolerance[i] * num_ranks);
  }
}
