#include "runtime/nn/block_product.h"

#include <random>
#include <vector>

#include "tests/support/catch.h"

using namespace dlflow::runtime;

namespace {

using Numbers = std::vector<float>;

/// Multiples of 1/8 from -4 to 4: sums of their products are exact in any order.
Numbers exact_numbers(int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  Numbers numbers(static_cast<size_t>(count));
  for (float& number : numbers) number = float(int(generator() % 65) - 32) / 8;
  return numbers;
}

Numbers any_numbers(int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Numbers numbers(static_cast<size_t>(count));
  for (float& number : numbers) number = normal(generator);
  return numbers;
}

/// a (rows, depth) has rows of `depth` + 3 numbers, or is transposed and has rows of `rows`.
Numbers plain_product(const ProductExtent& extent, const Numbers& a, bool transposed,
                      const Numbers& b, Numbers c) {
  const auto [rows, columns, depth] = extent;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t n = 0; n < columns; ++n) {
      for (int64_t i = 0; i < depth; ++i) {
        const float factor = a[size_t(transposed ? i * rows + r : r * (depth + 3) + i)];
        c[size_t(r * columns + n)] += factor * b[size_t(i * columns + n)];
      }
    }
  }
  return c;
}

}  // namespace

TEST_CASE("a block's product is that of plain loops", "[block_product]") {
  const auto extent =
      GENERATE(ProductExtent{4, 16, 1}, ProductExtent{16, 64, 64}, ProductExtent{16, 80, 7},
               ProductExtent{64, 48, 20}, ProductExtent{16, 144, 33});
  const auto [rows, columns, depth] = extent;
  CAPTURE(rows, columns, depth);
  const Numbers b = exact_numbers(depth * columns, 2);
  const Numbers before = exact_numbers(rows * columns, 3);
  const Numbers zeros(before.size());
  const Numbers a = exact_numbers(rows * (depth + 3), 1), turned = exact_numbers(depth * rows, 4);

  Numbers c = before;
  multiply_block(extent, {a.data(), depth + 3}, {b.data(), columns}, Into::Replaced,
                 {c.data(), columns});
  CHECK(c == plain_product(extent, a, false, b, zeros));
  c = before;
  multiply_block(extent, {a.data(), depth + 3}, {b.data(), columns}, Into::Added,
                 {c.data(), columns});
  CHECK(c == plain_product(extent, a, false, b, before));
  c = before;
  multiply_transposed_block(extent, {turned.data(), rows}, {b.data(), columns}, Into::Replaced,
                            {c.data(), columns});
  CHECK(c == plain_product(extent, turned, true, b, zeros));
  c = before;
  multiply_transposed_block(extent, {turned.data(), rows}, {b.data(), columns}, Into::Added,
                            {c.data(), columns});
  CHECK(c == plain_product(extent, turned, true, b, before));
}

TEST_CASE("the bits of a block's product do not depend on its extent", "[block_product]") {
  const ProductExtent extent = {16, 128, 50};
  const Numbers a = any_numbers(16 * 50, 1), b = any_numbers(50 * 128, 2);
  Numbers whole(16 * 128), parts(whole.size());
  multiply_block(extent, {a.data(), 50}, {b.data(), 128}, Into::Replaced, {whole.data(), 128});
  for (int64_t row = 0; row < 16; row += 4) {
    for (int64_t column = 0; column < 128; column += 16) {
      multiply_block({4, 16, 20}, {a.data() + row * 50, 50}, {b.data() + column, 128},
                     Into::Replaced, {parts.data() + row * 128 + column, 128});
      multiply_block({4, 16, 30}, {a.data() + row * 50 + 20, 50},
                     {b.data() + 20 * 128 + column, 128}, Into::Added,
                     {parts.data() + row * 128 + column, 128});
    }
  }
  CHECK(parts == whole);
}

TEST_CASE("a block can be transposed", "[block_product]") {
  const Numbers from = any_numbers(32 * 50, 1);
  Numbers to(48 * 40, -1.0f);
  transpose_block(32, 48, {from.data(), 50}, {to.data(), 40});
  for (int64_t r = 0; r < 32; ++r) {
    for (int64_t c = 0; c < 48; ++c) {
      REQUIRE(to[size_t(c * 40 + r)] == from[size_t(r * 50 + c)]);
    }
  }
  CHECK(to[32] == -1.0f);
}
