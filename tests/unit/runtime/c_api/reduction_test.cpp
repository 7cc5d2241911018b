#include "runtime/c_api/reduction.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/bfloat16.h"
#include "base/float16.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"

using namespace dlflow;
using namespace dlflow::runtime;
using dlflow::test::error_of;

namespace {

/// Reduces 3 blocks of 2,500 numbers, more than a tile; all numbers of block b have the value of b.
template <typename T>
std::vector<T> reduced(dlflow_type type, dlflow_op op, const std::vector<T>& values) {
  std::vector<std::vector<T>> blocks;
  std::vector<const std::byte*> places;
  for (const T value : values) blocks.emplace_back(2500, value);
  for (const auto& block : blocks) {
    places.push_back(reinterpret_cast<const std::byte*>(block.data()));
  }
  std::vector<T> output(2500);
  reduce_blocks(type, op, reinterpret_cast<std::byte*>(output.data()), places, output.size());
  return output;
}

template <typename T>
void check(dlflow_type type, const std::vector<T>& values, std::vector<T> by_op) {
  for (size_t op = 0; op < by_op.size(); ++op) {
    const bool exists = error_of([&] { require_reduction(type, dlflow_op(op)); }) == "";
    if (!exists) continue;
    INFO(std::string(name(type)) << " " << std::string(name(dlflow_op(op))));
    CHECK(reduced(type, dlflow_op(op), values) == std::vector<T>(2500, by_op[op]));
  }
}

}  // namespace

TEST_CASE("every type is reduced by every operation that it supports") {
  // In the order of dlflow_op; operations that a type does not support are skipped.
  check<float>(DLFLOW_F32, {6, 1.5, 0}, {7.5, 2.5, 0, 0, 6});
  check<double>(DLFLOW_F64, {6, 1.5, 3}, {10.5, 3.5, 27, 1.5, 6});
  check<int8_t>(DLFLOW_I8, {100, 100, -3}, {-59, 0, -48, -3, 100, 100, -3, -3});
  check<uint8_t>(DLFLOW_U8, {200, 100, 3}, {47, 0, 96, 3, 200, 0, 239, 175});
  check<int32_t>(DLFLOW_I32, {INT32_MAX, 1, 7},
                 {INT32_MIN + 7, 0, INT32_MAX - 6, 1, INT32_MAX, 1, INT32_MAX, INT32_MAX ^ 6});
  check<int64_t>(DLFLOW_I64, {-6, 5, 3}, {2, 0, -90, -6, 5, 0, -1, -4});
  check<uint8_t>(DLFLOW_BOOL, {1, 1, 0}, {1, 0, 0, 0, 1, 0, 1, 0});
  check<uint8_t>(DLFLOW_BOOL, {1, 1, 1}, {1, 0, 1, 1, 1, 1, 1, 1});
}

TEST_CASE("16-bit floats are reduced as fp32 and rounded once") {
  // 2048 + 1 is 2048 in fp16, 256 + 1 is 256 in bf16.
  const Float16 large = narrow_to_float16(2048), one = narrow_to_float16(1);
  CHECK(reduced<uint16_t>(DLFLOW_F16, DLFLOW_SUM, {large.bits, one.bits, one.bits})[2499] ==
        narrow_to_float16(2050).bits);
  CHECK(reduced<uint16_t>(DLFLOW_BF16, DLFLOW_SUM,
                          {narrow(256).bits, narrow(1).bits, narrow(1).bits})[2499] ==
        narrow(258).bits);
}

TEST_CASE("operations that a type does not support and unknown numbers are refused") {
  CHECK(error_of([] { require_reduction(DLFLOW_F16, DLFLOW_BXOR); }) ==
        "'bxor' is not an operation of fp16 numbers: they have no bits to combine");
  CHECK(error_of([] { require_reduction(DLFLOW_I32, DLFLOW_AVG); }) ==
        "'avg' is not an operation of int32 numbers: use a sum, and divide it");
  CHECK(error_of([] { require_reduction(dlflow_type(10), DLFLOW_SUM); }) ==
        "there is no type number 10");
  CHECK(error_of([] { require_reduction(DLFLOW_F32, dlflow_op(8)); }) ==
        "there is no operation number 8");
}
