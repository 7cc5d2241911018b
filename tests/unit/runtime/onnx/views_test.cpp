#include "runtime/onnx/views.h"

#include "base/error.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::runtime;
using Catch::Contains;

namespace {

constexpr int64_t kB = kBatch;

/// (B,6,4)
View all() { return view_of(0, {6, 4}); }

}  // namespace

TEST_CASE("dimensions have as few factors as there can be", "[onnx]") {
  CHECK(simplified({{1, 7}, {2, 12}, {3, 4}, {1, 0}}) == Dimension{{6, 4}});
  CHECK(simplified({{2, 12}, {3, 5}}) == Dimension{{2, 12}, {3, 5}});
  CHECK(simplified({{kB, 0}, {6, 0}}) == Dimension{{kB, 0}, {6, 0}});
  CHECK(simplified({{6, 0}, {kB, 0}}) == Dimension{{6, 0}, {kB, 0}});
  CHECK(simplified({{1, 3}}).empty());
  CHECK(size_of({}) == 1);
  CHECK(size_of({{2, 1}, {3, 1}}) == 6);
  CHECK(sizes_of(all()) == std::vector<int64_t>{kB, 6, 4});
}

TEST_CASE("products of sizes stay within what can be computed", "[onnx]") {
  CHECK(checked_product(int64_t{1} << 31, int64_t{1} << 31) == int64_t{1} << 62);
  CHECK_THROWS_WITH(checked_product(int64_t{1} << 32, int64_t{1} << 31),
                    "its sizes are beyond what can be computed");
}

TEST_CASE("axes and bounds may count from the end", "[onnx]") {
  CHECK(dimension_at(0, 3) == 0);
  CHECK(dimension_at(2, 3) == 2);
  CHECK(dimension_at(-1, 3) == 2);
  CHECK(dimension_at(-3, 3) == 0);
  for (const int64_t axis : {3, -4}) CHECK_THROWS_WITH(dimension_at(axis, 3), Contains("its axis"));
  CHECK(slice_bound(2, 5) == 2);
  CHECK(slice_bound(-2, 5) == 3);
  CHECK(slice_bound(9, 5) == 5);
  CHECK(slice_bound(-9, 5) == 0);
}

TEST_CASE("a part of a view begins where it is taken from", "[onnx]") {
  const View part = sliced(all(), 2, 1, 3);
  CHECK(part.offset == 1);
  CHECK(sizes_of(part) == std::vector<int64_t>{kB, 6, 2});
  CHECK(sliced(all(), 1, -2, 100).offset == 16);
  CHECK(sliced(all(), 1, 0, 6) == all());
  CHECK(sliced(all(), 0, 0, kB) == all());
  CHECK_THROWS_WITH(sliced(all(), 1, 3, 3), "it takes nothing");
  CHECK_THROWS_WITH(sliced(all(), 0, 0, 1), Contains("it takes a part of the batch"));
  const View joined = reshaped(all(), {-1, 24}, -1);
  CHECK(sizes_of(sliced(joined, 1, 0, 8)) == std::vector<int64_t>{kB, 8});
  const View turned = reshaped(transposed(all(), {0, 2, 1}), {-1, 24}, -1);
  CHECK_THROWS_WITH(sliced(turned, 1, 0, 8), Contains("of dimensions that were joined"));
}

TEST_CASE("one index of a dimension leaves the others", "[onnx]") {
  CHECK(chosen(all(), 1, 2).offset == 8);
  CHECK(chosen(all(), 1, -1).offset == 20);
  CHECK(sizes_of(chosen(all(), 1, -6)) == std::vector<int64_t>{kB, 4});
  for (const int64_t index : {6, -7}) {
    CHECK_THROWS_WITH(chosen(all(), 1, index), Contains("its index is outside"));
  }
  CHECK_THROWS_WITH(chosen(all(), 0, 0), Contains("a part of the batch"));
}

TEST_CASE("dimensions are ordered as is said", "[onnx]") {
  CHECK(sizes_of(transposed(all(), {2, 0, 1})) == std::vector<int64_t>{4, kB, 6});
  CHECK_THROWS_WITH(transposed(all(), {0, 1}), Contains("another number of dimensions"));
  CHECK_THROWS_WITH(transposed(all(), {0, 1, 1}), Contains("its order is not one"));
}

TEST_CASE("only dimensions of size 1 are repeated", "[onnx]") {
  View one = all();
  one.dimensions.insert(one.dimensions.begin() + 1, Dimension{});
  const View many = expanded(one, {1, 3, 6, 4});
  CHECK(sizes_of(many) == std::vector<int64_t>{kB, 3, 6, 4});
  CHECK(many.dimensions[1] == Dimension{{3, 0}});
  CHECK(sizes_of(expanded(all(), {2, 1, 1, 1})) == std::vector<int64_t>{2, kB, 6, 4});
  CHECK(expanded(all(), {6, 4}) == all());
  CHECK(sizes_of(expanded(one, {1, 1'000'000, 1, 1}))[1] == 1'000'000);
  for (const int64_t size : {int64_t{0}, int64_t{-1}, int64_t{1'000'001}}) {
    CHECK_THROWS_WITH(expanded(one, {1, size, 1, 1}), Contains("it repeats more"));
  }
  CHECK_THROWS_WITH(expanded(all(), {1, 5, 4}), Contains("it repeats more"));
}

TEST_CASE("sizes are copied and found as Reshape has them", "[onnx]") {
  const auto sizes = [](const std::vector<int64_t>& to, int64_t batch = -1) {
    return sizes_of(reshaped(all(), to, batch));
  };
  CHECK(sizes({0, 0, 2, 2}) == std::vector<int64_t>{kB, 6, 2, 2});
  CHECK(sizes({0, -1}) == std::vector<int64_t>{kB, 24});
  CHECK(sizes({-1, 4}) == std::vector<int64_t>{kB * 6, 4});
  CHECK(sizes({-1, 2, 3, 4}) == std::vector<int64_t>{kB, 2, 3, 4});
  CHECK(sizes({0, 3, 2, 1, 4}) == std::vector<int64_t>{kB, 3, 2, 1, 4});
  for (const std::vector<int64_t>& bad : {std::vector<int64_t>{-1, -1, 4},
                                          {0, 5, -1},
                                          {-2, 6, 4},
                                          {0, 6, 5},
                                          {0, 4, 5},
                                          {0, 0, 0, 0},
                                          {0, 6},
                                          {0, 8, 3, 2}}) {
    CHECK_THROWS_WITH(reshaped(all(), bad, -1), "dlflow has no layer that gives this shape");
  }
}

TEST_CASE("a size that a file says in numbers is that of its batch, if it can be", "[onnx]") {
  const auto sizes = [](const std::vector<int64_t>& to, int64_t batch) {
    return sizes_of(reshaped(all(), to, batch));
  };
  CHECK(sizes({2, 6, 4}, 2) == std::vector<int64_t>{kB, 6, 4});
  CHECK(sizes({1, 24}, 1) == std::vector<int64_t>{kB, 24});
  CHECK(sizes({12, 4}, 2) == std::vector<int64_t>{kB * 6, 4});
  CHECK(sizes({2, 2, 3, 4}, 2) == std::vector<int64_t>{kB, 2, 3, 4});
  CHECK(sizes({-1, 6, 4}, 2) == std::vector<int64_t>{kB, 6, 4});
  CHECK(sizes({kB, 24}, 2) == std::vector<int64_t>{kB, 24});
  const View many = view_of(0, {1'000'000, 4});
  CHECK(sizes_of(reshaped(many, {2'000'000, 4}, 2)) == std::vector<int64_t>{kB * 1'000'000, 4});
  CHECK_THROWS_WITH(sizes({3, 6, 4}, 2), Contains("gives this shape"));
  CHECK_THROWS_WITH(sizes({2, 6, 4}, -1), Contains("gives this shape"));
}
