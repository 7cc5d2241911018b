#include "base/random.h"

#include "tests/support/catch.h"

using namespace dlflow;

// Expected values: kat_vectors of the authors' Random123 library.
TEST_CASE("Philox gives the numbers of its authors' test vectors", "[random]") {
  CHECK(philox({0, 0, 0, 0}, {0, 0}) ==
        std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a random stream depends on each part of its purpose, and on nothing else", "[random]") {
  const auto first = [](RandomStream stream) { return stream.next(); };
  const uint32_t number = first(RandomStream(7, RandomUse::Permutation, 3, 4));
  CHECK(first(RandomStream(7, RandomUse::Permutation, 3, 4)) == number);
  CHECK(first(RandomStream(8, RandomUse::Permutation, 3, 4)) != number);
  CHECK(first(RandomStream(7 + (uint64_t(1) << 32), RandomUse::Permutation, 3, 4)) != number);
  CHECK(first(RandomStream(7, RandomUse::Augmentation, 3, 4)) != number);
  CHECK(first(RandomStream(7, RandomUse::Permutation, 4, 4)) != number);
  CHECK(first(RandomStream(7, RandomUse::Permutation, 3, 5)) != number);
}

TEST_CASE("numbers below a bound reach every value about equally often", "[random]") {
  RandomStream stream(1, RandomUse::Augmentation, 0);
  const uint32_t bound = GENERATE(1, 2, 7, 10);
  std::vector<int> counts(bound);
  const int draws = 7000;
  for (int i = 0; i < draws; ++i) ++counts.at(stream.below(bound));
  // 7000 draws of probability 1/7 have a standard deviation of 29, and the stream is always the
  // same.
  for (const int count : counts) CHECK(std::abs(count - draws / int(bound)) < 150);
}

TEST_CASE("uniform numbers are at least 0 and less than 1", "[random]") {
  RandomStream stream(1, RandomUse::Initialization, 0);
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const float value = stream.uniform();
    REQUIRE(value >= 0.0f);
    REQUIRE(value < 1.0f);
    sum += value;
  }
  CHECK(sum / 10000 == Approx(0.5).margin(0.02));
}
