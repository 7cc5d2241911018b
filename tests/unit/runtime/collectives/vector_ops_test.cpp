#include "runtime/collectives/vector_ops.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/support/as_type.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::runtime;
using dlflow::test::as_type;

namespace {

constexpr size_t kGuard = 40;  // numbers before and after, more than a vector holds
constexpr float kGuardNumber = 77;

/// Numbers of a type between guards that must not change.
class Guarded {
 public:
  Guarded(DataType type, const std::vector<float>& numbers)
      : bytes_(as_type(type, with_guards(numbers))), count_(numbers.size()), type_(type) {}

  Values values() { return all().subrange(kGuard, count_); }

  /// The numbers as floats; nothing if a guard has changed.
  std::vector<float> numbers() {
    const std::vector<std::byte> expected = as_type(type_, with_guards(std::vector<float>(count_)));
    const auto same = [&](size_t first) {
      return std::memcmp(&bytes_[first], &expected[first], kGuard * size_of(type_)) == 0;
    };
    if (!same(0) || !same((kGuard + count_) * size_of(type_))) return {};
    std::vector<float> floats(count_);
    for (size_t i = 0; i < count_; ++i) floats[i] = number(i);
    return floats;
  }

 private:
  static std::vector<float> with_guards(const std::vector<float>& numbers) {
    std::vector<float> all(kGuard, kGuardNumber);
    all.insert(all.end(), numbers.begin(), numbers.end());
    all.insert(all.end(), kGuard, kGuardNumber);
    return all;
  }

  Values all() { return {bytes_.data(), count_ + 2 * kGuard, type_}; }

  float number(size_t i) {
    float number = 0;
    convert(std::span(&number, 1), values().subrange(i, 1));
    return number;
  }

  std::vector<std::byte> bytes_;
  size_t count_;
  DataType type_;
};

/// Small whole numbers: these and their sums are exact in every type.
std::vector<float> numbers_of(int part, size_t count) {
  std::vector<float> numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = float((i * 5 + size_t(part) * 3) % 11);
  return numbers;
}

std::vector<float> sum_of(int parts, size_t count) {
  std::vector<float> sum(count);
  for (int part = 0; part < parts; ++part) {
    const auto numbers = numbers_of(part, count);
    for (size_t i = 0; i < count; ++i) sum[i] += numbers[i];
  }
  return sum;
}

/// Sizes of one, below and above a vector and the blocks of several loops.
size_t any_count() {
  return GENERATE(size_t(1), size_t(15), size_t(512), size_t(513), size_t(1024), size_t(2500));
}

}  // namespace

TEST_CASE("numbers are added elementwise, and their neighbours stay", "[collectives]") {
  const DataType type = GENERATE(from_range(kDataTypes));
  const size_t count = any_count();
  Guarded into(type, numbers_of(0, count)), values(type, numbers_of(1, count));
  add(into.values(), values.values());
  CHECK(into.numbers() == sum_of(2, count));
  CHECK(values.numbers() == numbers_of(1, count));
}

TEST_CASE("numbers are converted elementwise, and their neighbours stay", "[collectives]") {
  const DataType type = GENERATE(from_range(kDataTypes));
  const size_t count = any_count();
  Guarded floats(DataType::Float32, numbers_of(0, count));
  Guarded others(type, std::vector<float>(count)),
      back(DataType::Float32, std::vector<float>(count));
  convert(others.values(), floats.values());
  CHECK(others.numbers() == numbers_of(0, count));
  convert(back.values(), others.values());
  CHECK(back.numbers() == numbers_of(0, count));
  Guarded same(type, std::vector<float>(count));
  convert(same.values(), others.values());
  CHECK(same.numbers() == numbers_of(0, count));
}

TEST_CASE("a part of a sum goes to all results, and their other elements stay", "[collectives]") {
  const DataType type = GENERATE(from_range(kDataTypes));
  const size_t count = any_count();
  const int num_parts = GENERATE(1, 2, 3, 5);
  const size_t first = 7;
  std::vector<Guarded> parts;
  for (int part = 0; part < num_parts; ++part) {
    parts.emplace_back(type, numbers_of(part, first + count + first));
  }
  std::vector<Values> values;
  for (Guarded& part : parts) values.push_back(part.values());
  std::vector<uint8_t> additions(size_t(num_parts), 0);
  additions.back() = uint8_t(num_parts - 1);  // from the last to the first
  sum_parts(values, additions, values, first, count);
  const std::vector<float> sum = sum_of(num_parts, first + count + first);
  for (int part = 0; part < num_parts; ++part) {
    std::vector<float> expected = numbers_of(part, first + count + first);
    std::copy_n(sum.begin() + first, count, expected.begin() + first);
    CHECK(parts[size_t(part)].numbers() == expected);
  }
}

TEST_CASE("two parts may have one result, or two results in another order", "[collectives]") {
  const size_t count = any_count();
  Guarded a(DataType::Float32, numbers_of(0, count)), b(DataType::Float32, numbers_of(1, count));
  Guarded c(DataType::Float32, numbers_of(2, count));
  const std::vector<Values> parts = {a.values(), b.values()};
  const std::vector<uint8_t> additions = {0, 1};
  sum_parts(parts, additions, std::vector{c.values()}, 0, count);
  CHECK(c.numbers() == sum_of(2, count));
  CHECK(a.numbers() == numbers_of(0, count));
  sum_parts(parts, additions, std::vector{b.values(), c.values()}, 0, count);
  CHECK(b.numbers() == sum_of(2, count));
  CHECK(a.numbers() == numbers_of(0, count));
  Guarded d(DataType::Float32, numbers_of(1, count));
  sum_parts(std::vector{a.values(), d.values()}, additions, std::vector{a.values(), c.values()}, 0,
            count);
  CHECK(a.numbers() == sum_of(2, count));
  CHECK(c.numbers() == sum_of(2, count));
  CHECK(d.numbers() == numbers_of(1, count));
  Guarded e(DataType::Float32, numbers_of(0, count));
  sum_parts(std::vector{e.values(), d.values()}, additions, std::vector{c.values(), d.values()}, 0,
            count);
  CHECK(e.numbers() == numbers_of(0, count));
  CHECK(c.numbers() == sum_of(2, count));
  CHECK(d.numbers() == sum_of(2, count));
}

TEST_CASE("each sum is consumed once, with its position", "[collectives]") {
  const size_t count = any_count();
  const size_t first = 7;
  Guarded a(DataType::Float32, numbers_of(0, first + count));
  Guarded b(DataType::Float32, numbers_of(1, first + count));
  std::vector<float> consumed;
  bool in_order = true;
  sum_parts(std::vector{a.values(), b.values()}, std::vector<uint8_t>{0, 1}, first, count,
            [&](size_t at, std::span<const float> sums) {
              in_order = in_order && at == first + consumed.size();
              consumed.insert(consumed.end(), sums.begin(), sums.end());
            });
  const std::vector<float> sum = sum_of(2, first + count);
  CHECK(in_order);
  CHECK(consumed == std::vector(sum.begin() + first, sum.end()));
  CHECK(a.numbers() == numbers_of(0, first + count));
}

TEST_CASE("sums follow the given order of additions, for up to 32 parts", "[collectives]") {
  // 1 + 2^-24 is rounded to 1; (2^-24 + 2^-24) + 1 is not.
  std::vector<float> numbers = {1, 0x1p-24f, 0x1p-24f};
  const auto sum = [&](std::vector<uint8_t> additions) {
    std::vector<Values> parts;
    for (float& number : numbers) parts.emplace_back(std::span(&number, 1));
    float result = 0;
    sum_parts(parts, additions, std::vector{Values(std::span(&result, 1))}, 0, 1);
    return result;
  };
  CHECK(sum({0, 1, 1}) == 1.0f);
  CHECK(sum({0, 0, 2}) == 1 + 0x1p-23f);
  numbers.assign(32, 1);
  std::vector<uint8_t> at_the_end(32);
  at_the_end.back() = 31;
  CHECK(sum(at_the_end) == 32);
}

TEST_CASE("integers wrap around", "[collectives]") {
  std::vector<int32_t> narrow = {INT32_MAX}, two = {2};
  add(std::span(narrow), std::span(two));
  CHECK(narrow[0] == INT32_MIN + 1);
  std::vector<int64_t> wide = {INT64_MIN}, minus = {-1};
  add(std::span(wide), std::span(minus));
  CHECK(wide[0] == INT64_MAX);
}
