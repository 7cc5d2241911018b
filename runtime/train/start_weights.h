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

/// First weights from a file instead of random numbers: fine-tuning.
namespace dlflow::runtime {

/// A file of weights, opened.
struct StartWeights {
  std::filesystem::path path;
  Safetensors tensors;
  std::string identity;         ///< a hash of the content
  std::set<std::string> taken;  ///< names of the model's tensors that start from the file
};

/// Opens `path`, a safetensors file or the folder of a checkpoint, and selects the tensors that
/// `model` takes from it: those of the same names and shapes. The last layer with weights starts
/// from random numbers if its shape differs there, as with another number of classes. Rank 0 prints
/// which tensors of the model start from random numbers, and which of the file are unused.
///
/// Collective. Throws Error{InvalidInput} on every rank if ranks find different files, if no tensor
/// fits, or if a tensor has another shape, has no floating-point numbers, or is missing for a
/// frozen layer; the message names it. Throws what Safetensors::open and load_checkpoint throw.
StartWeights open_start_weights(Communicator& comm, const std::filesystem::path& path,
                                const Model& model);

/// Overwrites the tensors of `weights` that `start` provides.
void take_start_weights(const StartWeights& start, const WeightLayout& layout,
                        std::span<float> weights);

}  // namespace dlflow::runtime
