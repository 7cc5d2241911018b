#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <random>

namespace dlflow::test {

/// Random choices that depend only on a seed, on every machine.
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

struct Seeds {
  uint64_t first = 0, count = 0;
};

/// Parses $`name`, which is FIRST:COUNT or FIRST alone; returns `usual` if it is unset.
inline Seeds seeds_from(const char* name, Seeds usual) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return usual;
  char* end = nullptr;
  const uint64_t first = std::strtoull(text, &end, 10);
  return {first, *end == ':' ? std::strtoull(end + 1, nullptr, 10) : 1};
}

}  // namespace dlflow::test
