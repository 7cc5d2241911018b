#pragma once

#include <cstdint>
#include <span>
#include <string>

/// Which numbers dropout keeps: a function of (seed, epoch, sample, layer) and the number's index,
/// so that any number of ranks, and a resumed run, draw the same.
namespace dlflow::runtime {

/// The seed, epoch and samples that determine the random numbers of a forward pass.
struct Draws {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  std::span<const uint32_t> samples;  ///< index in the data set of each sample of the batch
};

/// FNV-1a hash; gives layers and parameters different random numbers.
uint64_t name_hash(const std::string& name);

/// The random numbers of one layer in one epoch.
class LayerDraws {
 public:
  LayerDraws(const Draws& draws, const std::string& layer);

  /// Sets keeps[i] to 0 with probability `rate`, else to 1, for the numbers of `sample` in the
  /// order (H, W, C) or (T, F).
  void draw(uint32_t sample, double rate, std::span<uint8_t> keeps) const;

 private:
  uint64_t key_;
};

}  // namespace dlflow::runtime
