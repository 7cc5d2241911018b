#include "runtime/optim/blocks.h"

#include <numeric>

#include "tests/support/catch.h"

using namespace dlflow::runtime;

TEST_CASE("blocks cover each layer and cross no border", "[optim]") {
  const std::vector<LayerSlot> layers = {
      {0, 40000, false}, {40000, 16, true}, {40016, 0, false}, {40016, 16384, false}};
  CHECK(make_blocks(layers) ==
        std::vector<Block>{
            {0, 0, 16384}, {0, 16384, 16384}, {0, 32768, 7232}, {1, 40000, 16}, {3, 40016, 16384}});
  CHECK(make_blocks({}).empty());
}

TEST_CASE("shares of blocks are even in elements, not in number", "[optim]") {
  // A large layer and many small ones.
  std::vector<LayerSlot> layers = {{0, 640000, false}};
  for (size_t i = 0; i < 100; ++i) layers.push_back({640000 + i * 16, 16, true});
  const std::vector<Block> blocks = make_blocks(layers);
  const size_t shares = GENERATE(1, 2, 3, 7, 8);
  const std::vector<size_t> begins = share_out(blocks, shares);
  REQUIRE(begins.size() == shares + 1);
  CHECK(begins.front() == 0);
  CHECK(begins.back() == blocks.size());
  for (size_t i = 0; i < shares; ++i) {
    REQUIRE(begins[i] <= begins[i + 1]);
    size_t elements = 0;
    for (size_t b = begins[i]; b < begins[i + 1]; ++b) elements += blocks[b].count;
    CHECK(double(elements) == Approx(641600.0 / double(shares)).margin(16384));
  }
}

TEST_CASE("a block goes to the share that contains its middle, the later one on a tie", "[optim]") {
  const auto shares_of = [](const std::vector<size_t>& counts, size_t shares) {
    std::vector<Block> blocks;
    for (const size_t count : counts) blocks.push_back({0, 0, count});
    return share_out(blocks, shares);
  };
  CHECK(shares_of({10, 10, 10, 10}, 2) == std::vector<size_t>{0, 2, 4});
  CHECK(shares_of({10, 10, 10, 10}, 3) == std::vector<size_t>{0, 1, 3, 4});
  CHECK(shares_of({10, 20, 10}, 2) == std::vector<size_t>{0, 1, 3});
  CHECK(shares_of({12, 20, 10}, 2) == std::vector<size_t>{0, 1, 3});
  CHECK(shares_of({8, 20, 10}, 2) == std::vector<size_t>{0, 2, 3});
  CHECK(shares_of({100, 1, 1}, 3) == std::vector<size_t>{0, 0, 1, 3});
}

TEST_CASE("there may be more shares than blocks, or no block at all", "[optim]") {
  const std::vector<Block> blocks = {{0, 0, 16}, {1, 16, 16}};
  const std::vector<size_t> begins = share_out(blocks, 5);
  CHECK(begins.front() == 0);
  CHECK(std::is_sorted(begins.begin(), begins.end()));
  CHECK(begins.back() == 2);
  CHECK(share_out({}, 3) == std::vector<size_t>{0, 0, 0, 0});
}

TEST_CASE("a sum of squares has every value once, at any position", "[optim]") {
  for (const size_t count : {1, 15, 16, 17, 33}) {
    for (size_t i = 0; i < count; ++i) {
      std::vector<float> values(count);
      values[i] = 3;
      CHECK(sum_of_squares(values) == 9);
    }
  }
}

TEST_CASE("a sum of squares neither overflows nor loses small numbers", "[optim]") {
  CHECK(sum_of_squares({}) == 0);
  const std::vector<float> large(3, 1e30f);
  CHECK(sum_of_squares(large) == Approx(3e60));
  std::vector<float> values(100003);  // whole vectors and a rest
  std::iota(values.begin(), values.end(), 1.0f);
  const double n = double(values.size());
  CHECK(sum_of_squares(values) == Approx(n * (n + 1) * (2 * n + 1) / 6).epsilon(1e-12));
}
