#pragma once

#include <cstddef>
#include <vector>

namespace dlflow::runtime {

/// Forward operations [begin, end) whose results are given up after the forward pass, and computed
/// again right before the backward pass of the last of them.
struct Segment {
  int begin = 0, end = 0;
};

/// The order in which the operations of a training step run:
///
///   forward 0 … n-1 | loss | of each segment, from the last to the first: again, then backward
///
/// Its places are numbers from 0. While a network is put together, nobody knows the segments yet,
/// and times are those of a step that computes nothing twice: i of the forward pass of operation i,
/// n of the loss, 2n - i of the backward pass of operation i.
class Schedule {
 public:
  /// \param recomputed  ascending, without overlap
  Schedule(int num_operations, const std::vector<Segment>& recomputed);

  int num_operations() const { return num_operations_; }
  int end() const { return end_; }

  /// Whether operation i is done twice, and the segment that it is in; -1 if in none.
  bool is_recomputed(int i) const { return segment_of_[size_t(i)] >= 0; }
  int segment_of(int i) const { return segment_of_[size_t(i)]; }

  int forward(int i) const { return i; }
  int loss() const { return num_operations_; }
  /// Of the second time; the operation is_recomputed().
  int again(int i) const { return again_[size_t(i)]; }
  int backward(int i) const { return backward_[size_t(i)]; }

 private:
  int num_operations_;
  int end_ = 0;
  std::vector<int> segment_of_, again_, backward_;
};

}  // namespace dlflow::runtime
