#pragma once

#include <cstdint>
#include <span>
#include <string>

/// Which numbers dropout keeps: a function of (seed, epoch, sample, layer) and the number's place,
/// so that any number of ranks, and a run that goes on, draw the same.
namespace dlflow::runtime {

/// Seed, epoch and samples, on which the random numbers of a forward pass depend.
struct Draws {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  std::span<const uint32_t> samples;  ///< the number of each sample of the batch in its data set
};

/// FNV-1a, which tells the random numbers of layers and parameters apart.
uint64_t name_hash(const std::string& name);

/// The random numbers of one layer in one epoch.
class LayerDraws {
 public:
  LayerDraws(const Draws& draws, const std::string& layer);

  /// keeps[i] is 0 with probability `rate`, else 1; of the numbers of `sample` in the order (H, W,
  /// C), or of (T, F).
  void draw(uint32_t sample, double rate, std::span<uint8_t> keeps) const;

 private:
  uint64_t key_;
};

}  // namespace dlflow::runtime
