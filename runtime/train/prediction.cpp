#include "runtime/train/prediction.h"

#include <algorithm>
#include <vector>

#include "runtime/data/loader.h"
#include "runtime/train/next_batch.h"

namespace dlflow::runtime {
namespace {

/// Returns the scores of texts in rows of the model's full length, with 0 behind the end of a text.
std::span<const float> in_whole_rows(const Model& model, const Leaf& texts,
                                     std::span<const float> scores, std::vector<float>& rows) {
  const size_t whole = size_t(model.num_scores()), position = size_t(model.num_classes());
  rows.assign(texts.count() * whole, 0);
  for (size_t k = 0; k < texts.count(); ++k) {
    const auto own =
        scores.subspan(k * texts.length * position, size_t(texts.targets[k]) * position);
    std::ranges::copy(own, rows.begin() + std::ptrdiff_t(k * whole));
  }
  return rows;
}

}  // namespace

void predict(const Communicator& comm, TrainedNetwork& network, const OrderedSamples& samples,
             IndexRange batches, const std::function<void(const Prediction&)>& take) {
  const Dataset& dataset = samples.dataset;
  Loader loader = samples.loader();
  loader.seek(0, batches.first);
  const bool draws_masks = has_masks(network.model.loss) && !dataset.has_masks;
  std::vector<float> no_masks, rows;
  for (size_t i = batches.first; i < batches.first + batches.count; ++i) {
    const Leaf part = next_batch(comm, loader, samples.images).leaves[0];
    Network& computing = network.networks.get(int64_t(part.count()), 0, int64_t(part.length));
    if (draws_masks) {
      no_masks.assign(part.count() * dataset.shape.height * dataset.shape.width, float(kNoClass));
    }
    computing.forward(part.images, part.labels,
                      draws_masks ? std::span<const float>(no_masks) : part.targets);
    const std::span<const float> scores = computing.scores();
    if (network.model.loss == LossKind::NextToken && dataset.has_texts()) {
      take({i * samples.batch, part.labels, {}, in_whole_rows(network.model, part, scores, rows)});
    } else {
      const bool has_lengths = dataset.has_texts();
      take({i * samples.batch, part.labels, has_lengths ? std::span<const float>() : part.targets,
            scores});
    }
  }
}

}  // namespace dlflow::runtime
