#pragma once

#include <functional>
#include <span>

#include "runtime/comm/communicator.h"
#include "runtime/data/dataset.h"
#include "runtime/data/shard.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/trained_network.h"

namespace dlflow::runtime {

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
