// Compression as training uses it: in place of the all-reduce in a Reducer.
#include "runtime/compress/compressed_sum.h"

#include <algorithm>

#include "runtime/reduce/reducer.h"
#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"
#include "tests/unit/runtime/compress/gradients.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;
using namespace std::chrono_literals;

namespace {

// A weight, its bias, another weight, a statistic; the weights are compressed.
const std::vector<size_t> kSizes = {300, 17, 500, 5};
constexpr uint32_t kSteps = 6;

std::vector<float> gradient_of(size_t parameter, int rank, uint32_t step) {
  return some_gradients(kSizes[parameter], uint32_t(10 * parameter + size_t(rank)), step);
}

/// The result of one rank: the sums of each step, if it gets them, and its residual.
struct Outcome {
  std::vector<std::vector<float>> sums;
  std::vector<float> residual, velocity;
};

struct Setting {
  Compression how;
  int num_ranks = 2, ranks_per_node = 1;
  size_t bucket_bytes = 1 << 20;
  bool same_gradients = false;  ///< all ranks have those of rank 0
};

CompressedGradients compressed(const Compression& how) {
  CompressedGradients gradients{how, {0, 2}, {}, 3, 1};
  if (how.method != CompressionMethod::PowerSgd) return gradients;
  const FlatLayout layout(kSizes);
  for (const size_t parameter : gradients.parameters) {
    Matrix matrix{layout.offset(parameter), {}, {}};
    const auto columns = uint32_t(kSizes[parameter] / 10);
    for (uint32_t r = 0; r < 10; ++r) matrix.rows.push_back(r * columns);
    for (uint32_t c = 0; c < columns; ++c) matrix.columns.push_back(c);
    gradients.matrices.push_back(matrix);
  }
  return gradients;
}

Outcome reduce(Communicator& comm, const Setting& setting) {
  Outcome outcome;
  ReducerOptions options{.mode = SumMode::Fast, .num_leaves = size_t(comm.size())};
  options.compressed = compressed(setting.how);
  options.bucket_bytes = setting.bucket_bytes;
  options.consume = [&](size_t first, std::span<const float> sums) {
    std::ranges::copy(sums, outcome.sums.back().begin() + long(first));
  };
  Reducer reducer(comm, FlatLayout(kSizes), options);
  for (uint32_t step = 0; step < kSteps; ++step) {
    outcome.sums.emplace_back(reducer.layout().num_elements());
    reducer.begin(step, 0);
    for (size_t parameter = kSizes.size(); parameter-- > 0;) {
      std::ranges::copy(gradient_of(parameter, setting.same_gradients ? 0 : comm.rank(), step),
                        reducer.gradient(0, parameter).begin());
      reducer.ready(0, parameter);
    }
    reducer.end();
    reducer.finish();
  }
  const auto copy = [](std::span<float> values) {
    return std::vector<float>(values.begin(), values.end());
  };
  outcome.residual = copy(reducer.compressed()->residual());
  outcome.velocity = copy(reducer.compressed()->velocity());
  return outcome;
}

std::vector<Outcome> outcomes(const Setting& setting) {
  ThreadGroup group(setting.num_ranks, 10s, setting.ranks_per_node);
  return on_ranks(group, setting.num_ranks,
                  [&](Communicator& comm) { return reduce(comm, setting); });
}

/// The dense sum over all ranks in that step.
std::vector<float> dense_sum_of(int num_ranks, uint32_t step) {
  const FlatLayout layout(kSizes);
  std::vector<float> sum(layout.num_elements());
  for (int rank = 0; rank < num_ranks; ++rank) {
    for (size_t parameter = 0; parameter < kSizes.size(); ++parameter) {
      const auto gradient = gradient_of(parameter, rank, step);
      const auto slot = layout.slot(std::span(sum), parameter);
      for (size_t i = 0; i < slot.size(); ++i) slot[i] += gradient[i];
    }
  }
  return sum;
}

std::vector<float> slot_of(std::vector<float> values, size_t parameter) {
  const auto slot = FlatLayout(kSizes).slot(std::span(values), parameter);
  return {slot.begin(), slot.end()};
}

void add_to(std::vector<float>& into, const std::vector<float>& values) {
  for (size_t i = 0; i < into.size(); ++i) into[i] += values[i];
}

const std::vector<CompressionMethod> kWithoutMomentum = {
    CompressionMethod::Float16, CompressionMethod::BFloat16, CompressionMethod::Int8,
    CompressionMethod::TopK,    CompressionMethod::MsTopK,   CompressionMethod::RandomK};

}  // namespace

TEST_CASE("no gradient is lost with any method, nodes and buckets", "[compress]") {
  Setting setting{.how = {.method = GENERATE(from_range(kWithoutMomentum)), .density = 0.05}};
  setting.how.aggregation = GENERATE(Aggregation::AllGather, Aggregation::Hierarchical);
  setting.num_ranks = GENERATE(1, 3, 4, 5);
  setting.ranks_per_node = GENERATE(1, 2);  // with 2 and 5 ranks, the last node has one
  setting.bucket_bytes = GENERATE(600, 1 << 20);
  const auto ranks = outcomes(setting);
  const bool one_node = setting.num_ranks <= setting.ranks_per_node;

  std::vector<float> expected(ranks[0].residual.size()), all(expected.size());
  for (uint32_t step = 0; step < kSteps; ++step) {
    const auto dense = dense_sum_of(setting.num_ranks, step);
    add_to(expected, dense);
    add_to(all, ranks[0].sums[step]);
    for (const Outcome& rank : ranks) {
      if (!one_node) CHECK(rank.sums[step] == ranks[0].sums[step]);
    }
    for (const size_t small : {1, 3}) {
      CHECK(distance(slot_of(ranks[0].sums[step], small), slot_of(dense, small)) < 1e-6);
    }
  }
  for (const Outcome& rank : ranks) add_to(all, rank.residual);
  CHECK(distance(all, expected) < 5e-6);
}

TEST_CASE("PowerSGD instead of the all-reduce loses nothing", "[compress]") {
  Setting setting{.how = {.method = CompressionMethod::PowerSgd,
                          .aggregation = Aggregation::AllGather,
                          .rank = 2}};
  setting.num_ranks = GENERATE(1, 2, 3, 4);
  setting.bucket_bytes = GENERATE(600, 1 << 20);
  const auto ranks = outcomes(setting);
  std::vector<float> expected(ranks[0].residual.size()), all(expected.size());
  for (uint32_t step = 0; step < kSteps; ++step) {
    add_to(expected, dense_sum_of(setting.num_ranks, step));
    add_to(all, ranks[0].sums[step]);
    CHECK(ranks.back().sums[step] == ranks[0].sums[step]);
  }
  for (const Outcome& rank : ranks) add_to(all, rank.residual);
  CHECK(distance(all, expected) < 1e-5);
  const bool something_left = distance(ranks[0].residual, std::vector<float>(all.size())) > 1e-4;
  CHECK(something_left == (setting.num_ranks > 1));
}

TEST_CASE("gTop-k and all-gather keep unsent gradients for later on any number of ranks",
          "[compress]") {
  Setting setting{.how = {.method = CompressionMethod::TopK,
                          .aggregation = Aggregation::GlobalTopK,
                          .density = 0.05}};
  setting.num_ranks = GENERATE(2, 3, 4, 5, 8);
  const auto ranks = outcomes(setting);
  std::vector<float> expected(ranks[0].residual.size()), all(expected.size());
  for (uint32_t step = 0; step < kSteps; ++step) {
    add_to(expected, dense_sum_of(setting.num_ranks, step));
    add_to(all, ranks[0].sums[step]);
    const auto weight = slot_of(ranks[0].sums[step], 2);
    CHECK(std::ranges::count_if(weight, [](float v) { return v != 0; }) <= 40);  // 5 % of 800
  }
  for (const Outcome& rank : ranks) add_to(all, rank.residual);
  CHECK(distance(all, expected) < 5e-6);
}

TEST_CASE("ranks of one node sum all gradients if only nodes compress", "[compress]") {
  const Setting setting{.how = {.method = CompressionMethod::TopK, .density = 0.05},
                        .num_ranks = 3,
                        .ranks_per_node = 3};
  const auto ranks = outcomes(setting);
  for (uint32_t step = 0; step < kSteps; ++step) {
    std::vector<float> all(ranks[0].residual.size());
    for (const Outcome& rank : ranks) add_to(all, rank.sums[step]);  // each has a share
    CHECK(distance(all, dense_sum_of(3, step)) < 1e-6);
  }
  for (const Outcome& rank : ranks) {
    CHECK(rank.residual == std::vector<float>(rank.residual.size()));
  }
}

TEST_CASE("between nodes, each rank compresses its own slice", "[compress]") {
  const Setting setting{.how = {.method = CompressionMethod::TopK, .density = 0.05},
                        .num_ranks = 4,
                        .ranks_per_node = 2};
  const auto ranks = outcomes(setting);
  for (size_t i = 0; i < ranks[0].residual.size(); ++i) {
    CHECK((ranks[0].residual[i] == 0 || ranks[1].residual[i] == 0));
    CHECK((ranks[2].residual[i] == 0 || ranks[3].residual[i] == 0));
  }
}

TEST_CASE("a single rank adds the residual of an earlier run on more ranks", "[compress]") {
  ThreadGroup group(1, 10s);
  const FlatLayout layout(kSizes);
  CompressedParts parts;
  parts.pieces = {{layout.offset(0), layout.size(0)}};
  CompressedSum compressed({.method = CompressionMethod::TopK}, parts, layout.num_elements(), 1);
  compressed.residual()[7] = 0.25f;
  compressed.begin(0, 0);
  std::vector<float> values(layout.num_elements(), 1.0f), expected = values;
  expected[7] = 1.25f;
  run(group.communicator(0), compressed.sum(Link(group.communicator(0)), 0, values));
  CHECK(values == expected);
  CHECK(compressed.residual()[7] == 0);
}

TEST_CASE("the same ranks get the same bits again", "[compress]") {
  Setting setting{.how = {.method = CompressionMethod::MsTopK, .density = 0.1}};
  setting.how.aggregation = GENERATE(Aggregation::AllGather, Aggregation::GlobalTopK);
  setting.num_ranks = 3;
  CHECK(outcomes(setting)[0].sums == outcomes(setting)[0].sums);
}

TEST_CASE("DGC gives momentum to uncompressed gradients, but not to statistics", "[compress]") {
  const float momentum = 0.5f;
  Setting setting{.how = {.method = CompressionMethod::Dgc,
                          .aggregation = Aggregation::AllGather,
                          .density = 0.05,
                          .momentum = momentum}};
  const auto ranks = outcomes(setting);
  std::vector<float> velocity(ranks[0].residual.size());
  for (uint32_t step = 0; step < kSteps; ++step) {
    const auto dense = dense_sum_of(2, step);
    for (size_t i = 0; i < velocity.size(); ++i) velocity[i] = momentum * velocity[i] + dense[i];
    CHECK(distance(slot_of(ranks[0].sums[step], 1), slot_of(velocity, 1)) < 1e-6);
    CHECK(distance(slot_of(ranks[0].sums[step], 3), slot_of(dense, 3)) < 1e-6);
  }
}

TEST_CASE("DGC sends accumulated velocities, and clears those it sent", "[compress]") {
  // An independent computation for ranks with equal gradients: u = m u + g; v += u; send the
  // largest of v.
  const float momentum = 0.9f;
  Setting setting{.how = {.method = CompressionMethod::Dgc,
                          .aggregation = Aggregation::AllGather,
                          .density = 0.1,
                          .clip = 0.5,  // divided by the root of 4 ranks
                          .momentum = momentum},
                  .num_ranks = 4,
                  .same_gradients = true};
  const auto rank = outcomes(setting)[0];
  std::vector<float> u(800), v(800);
  for (uint32_t step = 0; step < kSteps; ++step) {
    std::vector<float> g = gradient_of(0, 0, step);
    const auto more = gradient_of(2, 0, step);
    g.insert(g.end(), more.begin(), more.end());
    double squares = 0;
    for (const float value : g) squares += double(value) * double(value);
    const double factor = std::min(1.0, 0.5 / 2 / std::sqrt(squares));
    std::vector<float> sizes;
    for (size_t i = 0; i < 800; ++i) {
      u[i] = momentum * u[i] + float(double(g[i]) * factor);
      v[i] += u[i];
      sizes.push_back(std::fabs(v[i]));
    }
    std::ranges::nth_element(sizes, sizes.begin() + 79, std::greater());
    std::vector<float> sent(800);
    for (size_t i = 0; i < 800; ++i) {
      if (std::fabs(v[i]) < sizes[79]) continue;
      sent[i] = 4 * v[i];
      u[i] = v[i] = 0;
    }
    auto got = slot_of(rank.sums[step], 0);
    const auto rest = slot_of(rank.sums[step], 2);
    got.insert(got.end(), rest.begin(), rest.end());
    CHECK(distance(got, sent) < 1e-6);
  }
  auto left = slot_of(rank.velocity, 0);
  CHECK(distance(left, {u.begin(), u.begin() + 300}) < 1e-6);
}
