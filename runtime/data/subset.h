#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace dlflow::runtime {

/// Ascending sample numbers in memory that `owner` keeps; without one, it must outlive its users.
struct SampleList {
  std::span<const uint32_t> samples;
  std::shared_ptr<const void> owner;
};

/// A part of a data set, in its order: the samples of a list, or all others. It takes only the
/// list, so holding out few of many samples is cheap.
class Subset {
 public:
  static Subset only(SampleList list) { return {std::move(list), true, 0}; }
  static Subset all_but(SampleList list, size_t num_samples) {
    return {std::move(list), false, num_samples};
  }

  size_t size() const {
    return is_listed_ ? list_.samples.size() : num_samples_ - list_.samples.size();
  }

  /// Returns the number in the data set of the part's i-th sample. Before it are those samples of
  /// the list that have at most i others before them: the k-th of the list has list[k] - k before
  /// it, which never falls with k.
  size_t operator[](size_t i) const {
    if (is_listed_) return list_.samples[i];
    size_t below = 0, end = list_.samples.size();
    while (below < end) {
      const size_t k = below + (end - below) / 2;
      if (list_.samples[k] - k <= i) {
        below = k + 1;
      } else {
        end = k;
      }
    }
    return i + below;
  }

 private:
  Subset(SampleList list, bool is_listed, size_t num_samples)
      : list_(std::move(list)), is_listed_(is_listed), num_samples_(num_samples) {}

  SampleList list_;
  bool is_listed_;
  size_t num_samples_;
};

}  // namespace dlflow::runtime
