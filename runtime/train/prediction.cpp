#include "runtime/train/prediction.h"

#include "runtime/data/loader.h"
#include "runtime/train/next_batch.h"

namespace dlflow::runtime {

void predict(const Communicator& comm, TrainedNetwork& network, const Dataset& dataset,
             size_t batch, IndexRange batches, StepImages* images, size_t loader_threads,
             const std::function<void(const Prediction&)>& take) {
  LoaderOptions options;
  options.division.global_batch = batch;
  options.shuffle = false;
  options.normalization = network.normalization;
  options.images = images;
  options.threads = loader_threads;
  Loader loader(dataset, options);
  loader.seek(0, batches.first);
  const bool draws_masks = has_masks(network.model.loss) && !dataset.has_masks;
  std::vector<float> no_masks;
  for (size_t i = batches.first; i < batches.first + batches.count; ++i) {
    const Leaf part = next_batch(comm, loader).leaves[0];
    Network& computing = network.networks.get(int64_t(part.count()), 0, int64_t(part.length));
    if (draws_masks) {
      no_masks.assign(part.count() * dataset.shape.height * dataset.shape.width, float(kNoClass));
    }
    computing.forward(part.images, part.labels,
                      draws_masks ? std::span<const float>(no_masks) : part.targets);
    take({i * batch, part.labels, part.targets, computing.scores()});
  }
}

}  // namespace dlflow::runtime
