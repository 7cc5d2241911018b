#pragma once

#include <filesystem>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/comm/communicator.h"
#include "runtime/data/normalization.h"
#include "runtime/nn/huge_buffer.h"
#include "runtime/train/network_set.h"

namespace dlflow::runtime {

/// The network of a checkpoint, ready for inference.
struct TrainedNetwork {
  Model model;
  Normalization normalization;
  std::vector<std::string> classes;  ///< their names, if the training data had any
  NetworkSet networks;               ///< has the weights
  HugeBuffer weights;
};

/// Loads the network of the checkpoint in `step_folder`, for `batch` samples at a time. Collective.
/// Throws what load_shared_checkpoint throws; Error{InvalidInput} if a Python script saved it,
/// which alone knows its network, or if its weights are not those of its model.
TrainedNetwork load_trained_network(Communicator& comm, const std::filesystem::path& step_folder,
                                    size_t batch);

}  // namespace dlflow::runtime
