#pragma once

#include <array>
#include <cstdint>

/// Random numbers that depend on their use, not on the thread or the time of the draw: they are the
/// same for any number of ranks and threads, and in a resumed run.
namespace dlflow {

/// Philox4x32-10: 128 random bits for each (counter, key).
/// Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// The use of a stream of random numbers. The values are part of the meaning of a seed, so they are
/// never renumbered.
enum class RandomUse : uint32_t {
  Initialization = 1,
  Permutation = 2,
  Augmentation = 3,
  Compression = 4,
  Dropout = 5,  // 6 was used for generated text
  Mixing = 7,
  Sampling = 8,
  Grouping = 9,
};

/// The stream of numbers for one (seed, use, a, b), for example (seed, Augmentation, epoch,
/// sample). Streams are independent of each other; each has 2^34 numbers.
class RandomStream {
 public:
  RandomStream(uint64_t seed, RandomUse use, uint32_t a, uint32_t b = 0)
      : key_{uint32_t(seed), uint32_t(seed >> 32)}, counter_{0, uint32_t(use), a, b} {}

  uint32_t next();

  /// Uniform in [0, bound), without bias; `bound` > 0.
  /// Source: Lemire, "Fast random integer generation in an interval", ACM TOMACS 29 (2019).
  uint32_t below(uint32_t bound);

  /// Uniform in [0, 1), a multiple of 2^-24.
  float uniform() { return float(next() >> 8) * 0x1p-24f; }

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> block_{};
  unsigned used_ = 4;  // of block_
};

}  // namespace dlflow
