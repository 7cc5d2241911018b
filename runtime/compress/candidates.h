#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/vector_clones.h"

namespace dlflow::runtime {

/// Ordered like the values' magnitudes; NaN comes last.
DLFLOW_INLINE uint32_t key_of(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffff; }

/// All numbers of a range from a magnitude on, with their places, ascending by place. NaN is larger
/// than infinity, which is larger than all finite numbers.
class Candidates {
 public:
  /// \param most  capacity; one more place is written but never used
  explicit Candidates(size_t most)
      : values_(std::make_unique_for_overwrite<float[]>(most + 1)),
        indices_(std::make_unique_for_overwrite<uint32_t[]>(most + 1)) {}

  size_t size() const { return size_; }
  std::span<const float> values() const { return {values_.get(), size_}; }
  std::span<const uint32_t> indices() const { return {indices_.get(), size_}; }

  /// Adds those of `values` that are not below `threshold`; values[0] is number `first` of the
  /// range. The capacity must suffice.
  void collect(float threshold, std::span<const float> values, size_t first);

 private:
  std::unique_ptr<float[]> values_;
  std::unique_ptr<uint32_t[]> indices_;
  size_t size_ = 0;
};

/// Returns the `wanted` largest and at most twice as many others, by a threshold estimated from a
/// sample. Returns nothing if the range is so short that reading all of it is as fast, if the
/// sample misled, or if too many are equal. Reads the range once.
std::optional<Candidates> sampled_candidates(std::span<const float> values, size_t wanted);

}  // namespace dlflow::runtime
