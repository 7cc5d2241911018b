#pragma once

#include <deque>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/compress/compressed_sum.h"
#include "runtime/nn/weight_layout.h"
#include "runtime/train/training_state.h"

/// Saves the compression state of all ranks between steps to a checkpoint, and loads it.
///
/// The state is kept per place: a rank, or a node if the ranks of a node compress together
/// (Aggregation::Hierarchical). The same number of places gets the same bits back. Another number
/// shares the state out so that its sum over all places, which is still to be applied, stays.
namespace dlflow::runtime {

/// Copies of the tensors, on rank 0; a move keeps their addresses.
class CompressionState {
 public:
  /// Collective. A null `compressed` gives no tensors. No sum may be under way.
  CompressionState(Communicator& comm, const WeightLayout& layout, CompressedSum* compressed);

  CompressionState(const CompressionState&) = delete;
  CompressionState(CompressionState&&) = default;  // its vectors keep their memory
  CompressionState& operator=(CompressionState&&) = default;

  /// The tensors of the file "compression"; empty without compression, and on all ranks but 0.
  const FurtherTensors& tensors() const { return tensors_; }

 private:
  void add(const std::string& prefix, const WeightLayout& layout, std::span<const float> values);

  std::deque<std::vector<float>> storage_;
  FurtherTensors tensors_;
};

/// Loads the share of `compressed` from such a file. Does nothing without the file, or if
/// `compressed` is null.
void load_compression(const Communicator& comm, const WeightLayout& layout,
                      const Checkpoint& checkpoint, CompressedSum* compressed);

}  // namespace dlflow::runtime
