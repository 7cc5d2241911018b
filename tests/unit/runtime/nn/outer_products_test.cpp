#include "runtime/nn/outer_products.h"

#include <omp.h>

#include <cmath>
#include <dnnl.hpp>
#include <random>

#include "runtime/nn/network.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/nn/network_numbers.h"
#include "tests/unit/runtime/nn/random_tensors.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;

namespace {

struct LeafFactors {
  size_t samples;
  std::vector<float> of_rows, of_columns;
};

std::vector<LeafFactors> random_leaves(const ProductShape& shape,
                                       const std::vector<size_t>& samples) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<LeafFactors> leaves;
  for (const size_t count : samples) {
    LeafFactors leaf{count, std::vector<float>(count * size_t(shape.rows)),
                     std::vector<float>(count * size_t(shape.columns))};
    for (float& value : leaf.of_rows) value = uniform(random);
    for (float& value : leaf.of_columns) value = uniform(random);
    leaves.push_back(std::move(leaf));
  }
  return leaves;
}

/// The remaining parts of `leaves`, and the squared length of each leaf.
struct Sums {
  std::vector<std::vector<float>> parts;
  std::vector<double> squares;
};

Sums add_up(const ProductShape& shape, const std::vector<LeafFactors>& leaves,
            const std::vector<uint8_t>& additions) {
  size_t samples = 0, num_parts = 0;
  for (size_t i = 0; i < leaves.size(); ++i) {
    samples += leaves[i].samples;
    num_parts = num_parts + 1 - additions[i];
  }
  OuterProducts products(std::span(&shape, 1), samples, additions);
  Sums sums{{}, std::vector<double>(leaves.size())};
  sums.parts.assign(num_parts, std::vector<float>(size_t(shape.rows * shape.columns), -7.0f));
  std::vector<float*> parts;
  for (std::vector<float>& part : sums.parts) parts.push_back(part.data());
  for (int step = 0; step < 2; ++step) {  // the second step must not contain the first
    sums.squares.assign(leaves.size(), 0);
    for (size_t i = 0; i < leaves.size(); ++i) {
      products.begin_leaf(i, leaves[i].samples);
      if (leaves[i].samples == 0) continue;
      products.keep(shape.parameter, leaves[i].of_rows.data(), leaves[i].of_columns.data());
    }
    products.add_up(shape.parameter, parts, sums.squares);
  }
  return sums;
}

std::vector<float> sum(std::vector<float> a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

/// The gradients that a network leaves in memory after adding up two leaves with the same samples.
HugeBuffer gradients_of_two_leaves(Network& network, const std::vector<float>& images,
                                   const std::vector<uint32_t>& labels) {
  const std::vector<ProductShape> shapes = network.products();
  OuterProducts products(shapes, 2 * labels.size(), {0, 1});
  network.leave_products_to(products);
  HugeBuffer gradients(network.layout()->size());
  for (size_t leaf = 0; leaf < 2; ++leaf) {
    products.begin_leaf(leaf, labels.size());
    network.forward(images, labels);
    network.backward(gradients.floats(), 0.5f);
  }
  for (const ProductShape& shape : shapes) {
    const size_t offset = network.layout()->parameters()[shape.parameter].offset;
    float* part = gradients.data() + offset;
    products.add_up(shape.parameter, std::span(&part, 1), {});
  }
  return gradients;
}

}  // namespace

TEST_CASE("outer products are those of the samples, in the weight's format", "[products]") {
  const int64_t group = GENERATE(64, 128);
  const ProductShape shape{3, 32, 256, group};
  const std::vector<LeafFactors> leaves = random_leaves(shape, {5});
  const Sums sums = add_up(shape, leaves, {0});
  REQUIRE(sums.parts.size() == 1);
  double squares = 0;
  for (int64_t r = 0; r < shape.rows; ++r) {
    for (int64_t c = 0; c < shape.columns; ++c) {
      double expected = 0;
      for (int64_t s = 0; s < 5; ++s) {
        expected += double(leaves[0].of_rows[size_t(s * shape.rows + r)]) *
                    double(leaves[0].of_columns[size_t(s * shape.columns + c)]);
      }
      const int64_t at = (c / group * shape.rows + r) * group + c % group;
      const double value = sums.parts[0][size_t(at)];
      if (std::abs(value - expected) > 1e-5) FAIL(r << ", " << c << ": " << value);
      squares += expected * expected;
    }
  }
  CHECK(sums.squares[0] == Approx(squares).epsilon(1e-5));
}

TEST_CASE("leaves added together give the same bits as leaves added one by one",
          "[products][exact]") {
  const ProductShape shape{0, 48, 128, 64};
  const std::vector<LeafFactors> leaves = random_leaves(shape, {3, 1, 0, 4, 7});
  std::vector<std::vector<float>> alone;
  std::vector<double> squares;
  for (const LeafFactors& leaf : leaves) {
    const Sums one = add_up(shape, {leaf}, {0});
    alone.push_back(one.parts[0]);
    squares.push_back(one.squares[0]);
  }
  CHECK(alone[2] == std::vector<float>(alone[2].size(), 0.0f));  // no samples

  const Sums tree = add_up(shape, leaves, {0, 1, 0, 2, 0});
  REQUIRE(tree.parts.size() == 2);
  CHECK(tree.parts[0] == sum(sum(alone[0], alone[1]), sum(alone[2], alone[3])));
  CHECK(tree.parts[1] == alone[4]);
  CHECK(tree.squares == squares);
  CHECK(add_up(shape, leaves, {0, 0, 0, 0, 0}).parts == alone);
}

TEST_CASE("large linear layers compute gradients by outer products, with the same sum",
          "[products][network]") {
  omp_set_num_threads(1);
  const std::string input = GENERATE("[20]", "[3, 8, 8]");
  const std::string layers =
      (input == "[20]" ? "- linear: {features: 64}\n- relu\n"
                       : "- conv2d: {channels: 16, kernel: 3}\n- relu\n- flatten\n") +
      std::string("- linear: {name: large, features: 128}\n- relu\n- linear: {features: 5}\n");
  const Problem p = make_problem(input, layers, 6);
  const std::vector<float> images = to_floats(p.images.values);
  Network network(p.model, 6, Network::Mode::Training);
  const WeightLayout& layout = *network.layout();
  const HugeBuffer weights = load(layout, p.weights);
  network.use_weights(weights.floats());
  const std::vector<ProductShape> shapes = network.products();
  const bool possible = dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core;
  REQUIRE(shapes.size() == (possible ? 1 : 0));
  if (!possible) return;
  CHECK(layout.parameters()[shapes[0].parameter].name == "large.weight");

  HugeBuffer whole(layout.size());
  network.forward(images, p.labels);
  network.backward(whole.floats(), 1);
  const HugeBuffer added = gradients_of_two_leaves(network, images, p.labels);
  for (size_t i = 0; i < layout.parameters().size(); ++i) {
    const bool is_sum = i == shapes[0].parameter;  // the others have one leaf
    CAPTURE(layout.parameters()[i].name);
    std::vector<float> expected = layout.to_plain(whole.floats(), i);
    for (float& value : expected) value *= is_sum ? 1 : 0.5f;
    const std::vector<double> wanted(expected.begin(), expected.end());
    CHECK(distance(layout.to_plain(added.floats(), i), wanted) < 2e-6);
  }
}
