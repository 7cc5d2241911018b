#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>

namespace dlflow::test {

/// Random choices that are the same for a seed on every machine.
class Dice {
 public:
  explicit Dice(uint64_t seed) : generator_(seed) {}
  int below(size_t bound) { return bound == 0 ? 0 : int(generator_() % bound); }
  bool once_in(int times) { return below(size_t(times)) == 0; }
  template <typename List>
  auto& one_of(List& list) {
    return *std::next(list.begin(), below(list.size()));
  }

 private:
  std::mt19937_64 generator_;
};

}  // namespace dlflow::test
