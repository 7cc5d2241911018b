#include "runtime/train/batches.h"

#include <chrono>
#include <utility>

#include "runtime/train/evaluation.h"
#include "runtime/train/shared_split.h"

namespace dlflow::runtime {

Batches::Batches(Communicator& comm, const TrainingJob& job, const TrainingData& data,
                 const Normalization& normalization, const Setup& setup, Timeline& timeline)
    : comm_(comm),
      job_(job),
      timeline_(timeline),
      order_(shared_order(comm, data.train.size(), job.settings.seed, setup.computes)),
      loader_(data.train, loader_options(data.train, normalization, setup)) {}

LoaderOptions Batches::loader_options(const Dataset& dataset, const Normalization& normalization,
                                      const Setup& setup) const {
  LoaderOptions options;
  options.division = setup.division;
  options.first_leaf = setup.leaves.first;
  options.own_leaves = setup.leaves.count;
  options.seed = job_.settings.seed;
  options.order = order_.get();
  if (dataset.has_texts()) {
    // The batch size, or the per-rank part if the batch grows with the ranks: the order must be the
    // same for any number of ranks.
    options.text_block = job_.settings.batch_per_rank.value_or(job_.settings.batch);
  }
  options.class_shares = job_.settings.class_shares;
  options.augmentation = job_.settings.augmentation;
  if (options.augmentation.mixes()) options.num_classes = uint32_t(job_.model.num_classes());
  options.normalization = normalization;
  options.prefetch = setup.computes ? job_.prefetch : 0;
  options.threads = setup.computes ? job_.loader_threads : 1;
  options.images = job_.images.get();
  return options;
}

void Batches::seek(uint64_t epoch, uint64_t step) { loader_.seek(epoch, step); }

LocalBatch Batches::load() {
  const Timed timed(timeline_, Timeline::Row::Computation, kLoadSpan);
  const auto begin = Timeline::Clock::now();
  const LocalBatch batch = next_batch(comm_, loader_, job_.images.get());
  waited_ = Timeline::Clock::now() - begin;
  return batch;
}

}  // namespace dlflow::runtime
