#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/data/dataset.h"

namespace dlflow::runtime {

/// Throws Error{InvalidInput} unless `dataset` has classes to draw samples by, and `count` shares,
/// 0: equal ones, are one for each.
void require_shares(const Dataset& dataset, size_t count);

/// Draws samples with replacement, so that each class has a share of its own of an epoch, however
/// many samples it has.
class ClassSampler {
 public:
  /// `shares`: one above 0 for each class; empty: all that have samples are equal. Throws
  /// Error{InvalidInput} if there are not as many as classes, or a class has a share and no sample.
  ClassSampler(const Dataset& dataset, std::span<const float> shares, uint64_t seed);

  /// The sample at place `place` of an epoch: the same for whoever asks, and when.
  uint32_t draw(uint64_t epoch, size_t place) const;

 private:
  uint64_t seed_;
  std::vector<uint32_t> samples_;  // class by class
  std::vector<size_t> first_;      // of each class, and the end
  std::vector<float> up_to_;       // the sum of the shares up to each class
};

}  // namespace dlflow::runtime
