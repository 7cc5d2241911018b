#pragma once

#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/comm/communicator.h"
#include "runtime/nn/model.h"
#include "runtime/nn/weight_layout.h"

/// First weights from a file instead of random ones: fine-tuning.
namespace dlflow::runtime {

/// A file of weights.
struct StartWeights {
  std::filesystem::path path;
  Safetensors tensors;
  std::string identity;         ///< a hash of the content
  std::set<std::string> taken;  ///< the names of a model's tensors that start from it
};

/// Opens `path`, a safetensors file or the folder of a checkpoint, and decides what `model` takes
/// from it: the tensors of the same names and shapes. The last layer with weights starts anew if it
/// has another shape there, as with another number of classes.
/// Rank 0 tells people which tensors of the model start anew, and which of the file are unused.
///
/// Collective. Throws Error{InvalidInput} on every rank if ranks find different files; if no tensor
/// fits; naming the tensor that has another shape or is not of floating-point numbers, or the one
/// of a frozen layer that the file lacks. Throws what Safetensors::open and load_checkpoint throw.
StartWeights open_start_weights(Communicator& comm, const std::filesystem::path& path,
                                const Model& model);

/// Overwrites the tensors of `weights` that `start` has.
void take_start_weights(const StartWeights& start, const WeightLayout& layout,
                        std::span<float> weights);

}  // namespace dlflow::runtime
