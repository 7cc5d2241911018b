#pragma once

#include <cstddef>
#include <vector>

namespace dlflow::runtime {

/// Forward operations [begin, end) whose results are given up after the forward pass, and
/// recomputed right before the backward pass of operation end - 1.
struct Segment {
  int begin = 0, end = 0;
};

/// The order in which the operations of a training step run:
///
///   forward 0 … n-1 | loss | for each segment, last to first: recompute, then backward
///
/// Places are numbers from 0. While a network is being assembled, its segments are unknown, and
/// times are those of a step without recomputation: i for the forward pass of operation i, n for
/// the loss, 2n - i for the backward pass of operation i.
class StepOrder {
 public:
  /// \param recomputed  ascending, without overlap
  StepOrder(int num_operations, const std::vector<Segment>& recomputed);

  int num_operations() const { return num_operations_; }
  int end() const { return end_; }

  /// Whether operation i is recomputed, and the segment that contains it; -1 if none.
  bool is_recomputed(int i) const { return segment_of_[size_t(i)] >= 0; }
  int segment_of(int i) const { return segment_of_[size_t(i)]; }

  int forward(int i) const { return i; }
  int loss() const { return num_operations_; }
  /// Place of the recomputation; requires is_recomputed().
  int again(int i) const { return again_[size_t(i)]; }
  int backward(int i) const { return backward_[size_t(i)]; }

 private:
  int num_operations_;
  int end_ = 0;
  std::vector<int> segment_of_, again_, backward_;
};

}  // namespace dlflow::runtime
