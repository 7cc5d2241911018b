// Compares with the compiler's own type, which uses the processor's instructions or libgcc.
#include "base/float16.h"

#include <cmath>
#include <limits>
#include <random>

#include "tests/support/catch.h"

using namespace dlflow;

namespace {

float widened_by_compiler(uint16_t bits) { return float(std::bit_cast<_Float16>(bits)); }
uint16_t narrowed_by_compiler(float value) { return std::bit_cast<uint16_t>(_Float16(value)); }

/// Returns the number of floats near `value` that are not narrowed as by the compiler.
int wrong_near(float value) {
  int wrong = 0;
  const uint32_t middle = std::bit_cast<uint32_t>(value);
  for (int distance = -3; distance <= 3; ++distance) {
    const auto near = std::bit_cast<float>(middle + uint32_t(distance));
    if (std::isnan(near)) continue;
    wrong += narrow_to_float16(near).bits != narrowed_by_compiler(near);
  }
  return wrong;
}

}  // namespace

TEST_CASE("every fp16 value is widened exactly, and narrows back to itself", "[float16]") {
  int wrong = 0;
  for (uint32_t i = 0; i <= 0xffff; ++i) {
    const auto bits = uint16_t(i);
    const float wide = widen(Float16{bits});
    if (std::isnan(widened_by_compiler(bits))) {
      wrong += !std::isnan(wide) || (narrow_to_float16(wide).bits & 0x7fff) <= 0x7c00;
    } else {
      wrong += std::bit_cast<uint32_t>(wide) != std::bit_cast<uint32_t>(widened_by_compiler(bits));
      wrong += narrow_to_float16(wide).bits != bits;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("floats are rounded to the nearest fp16, ties to even", "[float16]") {
  int wrong = 0;
  for (uint32_t i = 0; i < 0x7c00; ++i) {  // each fp16, and half-way to the next
    const float here = widen(Float16{uint16_t(i)}), next = widen(Float16{uint16_t(i + 1)});
    const float middle = std::isinf(next) ? 65520.0f : (here + next) / 2;
    for (const float value : {here, middle}) wrong += wrong_near(value) + wrong_near(-value);
  }
  CHECK(wrong == 0);
  CHECK(narrow_to_float16(65519.0f).bits == 0x7bff);
  CHECK(narrow_to_float16(65520.0f).bits == 0x7c00);
  CHECK(narrow_to_float16(-std::numeric_limits<float>::infinity()).bits == 0xfc00);
  CHECK(narrow_to_float16(std::numeric_limits<float>::denorm_min()).bits == 0);
}

TEST_CASE("floats of any size are narrowed as by the compiler", "[float16]") {
  std::mt19937 random(3);
  int wrong = 0;
  for (int i = 0; i < 1000000; ++i) {
    const auto value = std::bit_cast<float>(uint32_t(random()));
    if (std::isnan(value)) {
      wrong += (narrow_to_float16(value).bits & 0x7fff) <= 0x7c00;
    } else {
      wrong += narrow_to_float16(value).bits != narrowed_by_compiler(value);
    }
  }
  CHECK(wrong == 0);
}
