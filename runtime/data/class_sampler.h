#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/data/dataset.h"

namespace dlflow::runtime {

/// Throws Error{InvalidInput} unless `dataset` has classes to draw samples by, and `count` is their
/// number, or 0 for equal shares.
void require_shares(const Dataset& dataset, size_t count);

/// Draws samples with replacement, so that each class has a given share of an epoch, independent of
/// its number of samples.
class ClassSampler {
 public:
  /// `shares`: above 0, one per class; empty: equal shares for classes with samples. Throws
  /// Error{InvalidInput} if there are not as many as classes, or a class with a share has no
  /// samples.
  ClassSampler(const Dataset& dataset, std::span<const float> shares, uint64_t seed);

  /// Returns the sample at place `place` of an epoch, the same on any rank and at any time.
  uint32_t draw(uint64_t epoch, size_t place) const;

 private:
  uint64_t seed_;
  std::vector<uint32_t> samples_;  // sorted by class
  std::vector<size_t> first_;      // begin of each class in `samples_`, and the end
  std::vector<float> up_to_;       // cumulative shares
};

}  // namespace dlflow::runtime
