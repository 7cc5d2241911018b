#pragma once

#include <dnnl.hpp>
#include <set>
#include <vector>

#include "runtime/nn/huge_buffer.h"
#include "runtime/nn/step_order.h"

namespace dlflow::runtime {

/// Memory for values that only part of a step needs: two values share bytes if they are never
/// needed at the same time. Times are those of schedule.h.
///
/// A value is needed from the operation that writes it to the last one that reads it. If the
/// schedule recomputes a segment, results that only this segment reads are needed twice: in the
/// forward pass until their last reader, and in the backward pass from their recomputation to the
/// last reader. In between, other values use their bytes. Results that other segments or the loss
/// read are kept, so a segment's inputs are still there when it is recomputed.
class Arena {
 public:
  explicit Arena(dnnl::engine engine) : engine_(std::move(engine)) {}

  /// Adds a value that is written at `time`. It has no address before allocate().
  dnnl::memory add(const dnnl::memory::desc& desc, int time);

  /// Returns the bytes of `memory` under another description of the same size.
  dnnl::memory view(const dnnl::memory& memory, const dnnl::memory::desc& desc);

  /// Marks `memory` as still needed at `time`. Memory outside this arena is left alone.
  void keep(const dnnl::memory& memory, int time);

  /// Bytes that allocate() would take.
  size_t measure(const StepOrder& schedule);

  /// Returns the bytes that each forward operation writes.
  std::vector<size_t> bytes_written(int num_operations) const;

  /// Gives every value its address.
  void allocate(const StepOrder& schedule);

  /// After allocate(): true if operation i, in a segment, has a result that was given up.
  bool gives_up(int i) const { return given_up_.contains(i); }

  size_t bytes() const { return buffer_.size() * sizeof(float); }

 private:
  /// A range of places of a schedule, both ends included.
  struct Span {
    int first = 0, last = 0;
  };
  struct Block {
    std::vector<dnnl::memory> views;
    size_t bytes = 0;
    std::set<int> times = {};  // the first is that of the write
    std::vector<Span> spans = {};
    size_t offset = 0;
  };

  Block* find(const dnnl::memory& memory);
  static std::vector<Span> spans_of(const Block& block, const StepOrder& schedule);
  static bool live_together(const Block& a, const Block& b);

  dnnl::engine engine_;
  std::vector<Block> blocks_;
  std::set<int> given_up_;  // indices of operations
  HugeBuffer buffer_;
};

}  // namespace dlflow::runtime
