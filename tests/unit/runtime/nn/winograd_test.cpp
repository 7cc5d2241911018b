#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "runtime/nn/winograd_kernel.h"
#include "tests/support/catch.h"

using namespace dlflow::runtime;

namespace {

/// Relative to the largest number; direct convolution has an error of 2e-7.
constexpr double kError = 2e-5;

MapGeometry geometry(int64_t images, int64_t channels, int64_t height, int64_t width,
                     bool blocked) {
  MapGeometry g{images, height, width, channels / 16};
  g.pixel_stride = blocked ? 16 : channels;
  g.group_stride = blocked ? height * width * 16 : 16;
  g.image_stride = height * width * channels;
  return g;
}

struct Case {
  int64_t images, from, to, height, width, top, left;
};

/// Random numbers between -1 and 1 for a map or weights.
std::vector<float> random_numbers(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = float(random() % 2001) / 1000.0f - 1.0f;
  return numbers;
}

/// Direct convolution in double precision.
class Direct {
 public:
  Direct(const Case& c, bool blocked)
      : c_(c),
        shape{geometry(c.images, c.from, c.height, c.width, blocked),
              geometry(c.images, c.to, c.height + 2 * c.top - 2, c.width + 2 * c.left - 2, blocked),
              c.top, c.left} {}

  size_t x_size() const { return size_t(c_.images * shape.x.image_stride); }
  size_t y_size() const { return size_t(c_.images * shape.y.image_stride); }
  size_t weight_size() const { return size_t(c_.from * c_.to * 9); }

  static size_t at(const MapGeometry& map, int64_t image, int64_t channel, int64_t row,
                   int64_t column) {
    return size_t(image * map.image_stride + channel / 16 * map.group_stride +
                  (row * map.width + column) * map.pixel_stride + channel % 16);
  }
  size_t weight_at(int64_t to, int64_t from, int64_t tap) const {
    return size_t((((to / 16 * (c_.from / 16) + from / 16) * 9 + tap) * 16 + from % 16) * 16 +
                  to % 16);
  }

  /// Calls visit(place in x, place in weights, place in y) for each product.
  template <typename Visit>
  void for_each_product(Visit visit) const {
    for (int64_t image = 0; image < c_.images; ++image)
      for (int64_t to = 0; to < c_.to; ++to)
        for (int64_t row = 0; row < shape.y.height; ++row)
          for (int64_t column = 0; column < shape.y.width; ++column)
            for (int64_t tap = 0; tap < 9; ++tap) {
              const int64_t r = row + tap / 3 - c_.top, c = column + tap % 3 - c_.left;
              if (r < 0 || c < 0 || r >= c_.height || c >= c_.width) continue;
              for (int64_t from = 0; from < c_.from; ++from) {
                visit(at(shape.x, image, from, r, c), weight_at(to, from, tap),
                      at(shape.y, image, to, row, column));
              }
            }
  }

 private:
  Case c_;

 public:
  WinogradShape shape;
};

/// The largest difference, in units of the largest number.
double error_of(const std::vector<float>& numbers, const std::vector<double>& expected) {
  double most = 0, largest = 1e-30;
  for (size_t i = 0; i < numbers.size(); ++i) {
    most = std::max(most, std::abs(double(numbers[i]) - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return most / largest;
}

constexpr Case kCases[] = {
    {1, 16, 16, 4, 4, 1, 1},   {3, 16, 48, 5, 7, 1, 1},  {2, 32, 16, 6, 9, 0, 0},
    {2, 48, 32, 3, 2, 2, 2},   {1, 16, 32, 10, 3, 2, 1}, {2, 16, 16, 1, 1, 1, 1},
    {40, 32, 64, 8, 8, 1, 1},   // more than a block of tiles
    {5, 144, 128, 6, 6, 0, 1},  // weights larger than any cache
    {7, 16, 320, 4, 4, 1, 1},   // blocks of the smallest size
};

std::vector<Registers> registers_here() {
  std::vector<Registers> registers;
  for (const Registers r : {Registers::Avx2, Registers::Avx512}) {
    if (has(r)) registers.push_back(r);
  }
  return registers;
}

}  // namespace

TEST_CASE("Winograd's algorithm agrees with direct convolution", "[winograd]") {
  const Case c = GENERATE(from_range(std::begin(kCases), std::end(kCases)));
  const bool blocked = GENERATE(true, false);
  if (registers_here().empty()) return;  // the kernel is never called there
  const Registers registers = GENERATE(from_range(registers_here()));
  CAPTURE(c.images, c.from, c.to, c.height, c.width, c.top, c.left, blocked,
          registers == Registers::Avx512);
  Direct direct(c, blocked);
  direct.shape.registers = registers;
  const std::vector<float> x = random_numbers(direct.x_size(), 1);
  const std::vector<float> weight = random_numbers(direct.weight_size(), 2);
  const std::vector<float> bias = random_numbers(size_t(c.to), 3);
  const std::vector<float> dy = random_numbers(direct.y_size(), 4);

  std::vector<double> y_expected(direct.y_size()), dx_expected(direct.x_size()),
      dweight_expected(direct.weight_size()), dbias_expected(size_t(c.to));
  direct.for_each_product([&](size_t from, size_t factor, size_t to) {
    y_expected[to] += double(x[from]) * double(weight[factor]);
    dx_expected[from] += double(dy[to]) * double(weight[factor]);
    dweight_expected[factor] += double(dy[to]) * double(x[from]);
  });
  const MapGeometry& map = direct.shape.y;
  std::vector<double> shifted = y_expected;
  for (int64_t image = 0; image < c.images; ++image)
    for (int64_t channel = 0; channel < c.to; ++channel)
      for (int64_t pixel = 0; pixel < map.pixels(); ++pixel) {
        const size_t at = Direct::at(map, image, channel, 0, pixel);
        shifted[at] = std::max(0.0, shifted[at] + double(bias[size_t(channel)]));
        dbias_expected[size_t(channel)] += double(dy[at]);
      }

  std::vector<float> y(direct.y_size(), 7.0f), dx(direct.x_size(), 7.0f);
  std::vector<float> dweight(direct.weight_size(), 7.0f), dbias(size_t(c.to), 7.0f);
  winograd_forward(direct.shape, x.data(), {weight.data()}, false, y.data());
  CHECK(error_of(y, y_expected) < kError);
  winograd_forward(direct.shape, x.data(), {weight.data(), bias.data()}, true, y.data());
  CHECK(error_of(y, shifted) < kError);
  winograd_backward_data(direct.shape, dy.data(), weight.data(), dx.data());
  CHECK(error_of(dx, dx_expected) < kError);
  winograd_backward_weights(direct.shape, x.data(), dy.data(), dweight.data(), dbias.data());
  CHECK(error_of(dweight, dweight_expected) < kError);
  CHECK(error_of(dbias, dbias_expected) < kError);

  std::vector<float> again(direct.weight_size());
  winograd_backward_weights(direct.shape, x.data(), dy.data(), again.data(), nullptr);
  CHECK(again == dweight);
}

TEST_CASE("Winograd's algorithm has the same bits with AVX2 as with AVX-512", "[winograd]") {
  const Case c = GENERATE(from_range(std::begin(kCases), std::end(kCases)));
  CAPTURE(c.images, c.from, c.to, c.height, c.width, c.top, c.left);
  Direct direct(c, true);
  const std::vector<float> x = random_numbers(direct.x_size(), 1);
  const std::vector<float> weight = random_numbers(direct.weight_size(), 2);
  const std::vector<float> bias = random_numbers(size_t(c.to), 3);
  const std::vector<float> dy = random_numbers(direct.y_size(), 4);
  const auto results = [&](Registers registers) {
    direct.shape.registers = registers;
    std::vector<std::vector<float>> numbers = {
        std::vector<float>(direct.y_size()), std::vector<float>(direct.x_size()),
        std::vector<float>(direct.weight_size()), std::vector<float>(size_t(c.to))};
    winograd_forward(direct.shape, x.data(), {weight.data(), bias.data()}, true, numbers[0].data());
    winograd_backward_data(direct.shape, dy.data(), weight.data(), numbers[1].data());
    winograd_backward_weights(direct.shape, x.data(), dy.data(), numbers[2].data(),
                              numbers[3].data());
    return numbers;
  };
  for (const Registers registers : registers_here()) {
    CHECK(results(registers) == results(Registers::Avx2));
  }
}
