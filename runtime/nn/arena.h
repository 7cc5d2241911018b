#pragma once

#include <dnnl.hpp>
#include <vector>

#include "runtime/nn/huge_buffer.h"

namespace dlflow::runtime {

/// Memory for values that are needed during a part of a step only: two of them share bytes if they
/// are never needed at the same time. Time is a number that grows from operation to operation;
/// backward operations come after all forward ones.
class Arena {
 public:
  explicit Arena(dnnl::engine engine) : engine_(std::move(engine)) {}

  /// A value that is written at `time`. It has no address before allocate().
  dnnl::memory add(const dnnl::memory::desc& desc, int time);

  /// The bytes of `memory` under another description of the same size.
  dnnl::memory view(const dnnl::memory& memory, const dnnl::memory::desc& desc);

  /// `memory` is still needed at `time`. Memory that is not of this arena is left alone.
  void keep(const dnnl::memory& memory, int time);

  /// Gives every value its address.
  void allocate();

  size_t bytes() const { return buffer_.size() * sizeof(float); }

 private:
  struct Block {
    std::vector<dnnl::memory> views;
    size_t bytes = 0;
    int first = 0, last = 0;
    size_t offset = 0;
  };

  Block* find(const dnnl::memory& memory);

  dnnl::engine engine_;
  std::vector<Block> blocks_;
  HugeBuffer buffer_;
};

}  // namespace dlflow::runtime
