#pragma once

#include <deque>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/compress/compressed_sum.h"
#include "runtime/nn/weight_layout.h"
#include "runtime/train/training_state.h"

/// The state of compression between steps, of all ranks, to a checkpoint and back.
///
/// It is kept by places: a rank is one, or, where ranks of a node share what is compressed
/// (Aggregation::Hierarchical), a node. As many places get the same bits back. Other numbers share
/// it out, so that its sum over all, which is what is still to be applied, stays.
namespace dlflow::runtime {

/// Copies of the tensors, on rank 0, for as long as this lives or what it was moved to.
class CompressionState {
 public:
  /// Collective. `compressed` may be null: then there are none. No sum is under way.
  CompressionState(Communicator& comm, const WeightLayout& layout, CompressedSum* compressed);

  CompressionState(const CompressionState&) = delete;
  CompressionState(CompressionState&&) = default;  // its vectors keep their memory
  CompressionState& operator=(CompressionState&&) = default;

  /// In the file "compression"; no file on other ranks than 0, and without compression.
  const FurtherTensors& tensors() const { return tensors_; }

 private:
  void add(const std::string& prefix, const WeightLayout& layout, std::span<const float> values);

  std::deque<std::vector<float>> storage_;
  FurtherTensors tensors_;
};

/// Gives `compressed` its share of what such a file holds; without one, or if `compressed` is null,
/// does nothing.
void load_compression(const Communicator& comm, const WeightLayout& layout,
                      const Checkpoint& checkpoint, CompressedSum* compressed);

}  // namespace dlflow::runtime
