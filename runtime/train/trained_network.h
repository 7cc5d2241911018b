#pragma once

#include <filesystem>
#include <functional>
#include <span>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/comm/communicator.h"
#include "runtime/data/dataset.h"
#include "runtime/data/normalization.h"
#include "runtime/data/shard.h"
#include "runtime/nn/huge_buffer.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/network_set.h"

namespace dlflow::runtime {

/// The network of a checkpoint, ready for inference.
struct TrainedNetwork {
  Model model;
  Normalization normalization;
  std::vector<std::string> classes;  ///< names, if the training data had any
  NetworkSet networks;               ///< with the weights
  HugeBuffer weights;
  std::string tokenizer = {};            ///< Dataset::tokenizer of the training data
  std::vector<std::string> origin = {};  ///< TrainingState::origin
};

/// Throws Error{InvalidInput} if the tokens of `dataset`, called `name`, differ from those that the
/// network was trained with.
void require_same_tokens(const TrainedNetwork& network, const Dataset& dataset,
                         const std::string& name);

/// Loads the network of the checkpoint in `step_folder`, for `batch` samples at a time. Collective.
/// Throws what load_shared_checkpoint throws; Error{InvalidInput} if a Python script saved it,
/// since only the script has its network, or if its weights do not fit its model.
TrainedNetwork load_trained_network(Communicator& comm, const std::filesystem::path& step_folder,
                                    size_t batch);

/// The scores of consecutive samples of a data set.
struct Prediction {
  size_t first = 0;                  ///< index of the first sample
  std::span<const uint32_t> labels;  ///< (count)
  std::span<const float> targets;    ///< (count, T), or none
  std::span<const float> scores;     ///< (count, scores of a sample)
};

/// Calls `take` with the scores of `network` for the samples of `batches`, in order. A sample's
/// scores have the same bits for any `batches` and number of ranks, as long as `samples.batch` is
/// the same. A network that predicts masks needs none in the data set. Scores behind the end of a
/// text are 0.
void predict(const Communicator& comm, TrainedNetwork& network, const OrderedSamples& samples,
             IndexRange batches, const std::function<void(const Prediction&)>& take);

}  // namespace dlflow::runtime
