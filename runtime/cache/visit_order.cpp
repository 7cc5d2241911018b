#include "runtime/cache/visit_order.h"

#include <algorithm>
#include <limits>

#include "runtime/data/text_order.h"

namespace dlflow::runtime {
namespace {

/// Collects the chunks of one step, each once.
class ChunksInOrder {
 public:
  explicit ChunksInOrder(const SampleChunks& chunk_of_sample) : chunks_(chunk_of_sample) {}

  void add(size_t sample) { step_.push_back(chunks_[sample]); }

  std::vector<uint32_t> take() {
    std::sort(step_.begin(), step_.end());
    step_.erase(std::unique(step_.begin(), step_.end()), step_.end());
    return std::exchange(step_, {});
  }

 private:
  const SampleChunks& chunks_;
  std::vector<uint32_t> step_;
};

}  // namespace

uint32_t SampleChunks::operator[](size_t sample) const {
  const auto chunk = [&](const auto& images) {
    return chunked_->place_of(images[sample].data()).chunk;
  };
  return std::visit(chunk, part_.pixels);
}

uint64_t VisitOrder::validation_steps() const {
  size_t most = 0;
  for (const IndexRange& run : batches) most = std::max(most, run.count);
  return validation_chunks.size() == 0 ? 0 : most;
}

std::vector<std::vector<uint32_t>> VisitOrder::chunks_of(uint64_t epoch) const {
  std::vector<std::vector<uint32_t>> steps;
  steps.reserve(steps_per_epoch());
  std::vector<uint32_t> order = epoch_permutation(train_chunks.size(), seed, epoch);
  if (text_block > 0) group_by_length(train_chunks.part(), order, text_block, seed, epoch);
  ChunksInOrder training(train_chunks);
  for (uint64_t step = 0; step < train_steps(); ++step) {
    for (const IndexRange& run : leaves) {
      for (size_t leaf = run.first; leaf < run.first + run.count; ++leaf) {
        const Share share = division.leaf(step, leaf);
        for (size_t i = 0; i < share.count; ++i) training.add(order[share.first + i]);
      }
    }
    steps.push_back(training.take());
  }
  ChunksInOrder validation(validation_chunks);
  for (uint64_t step = 0; step < validation_steps(); ++step) {
    for (const IndexRange& run : batches) {
      if (step >= run.count) continue;
      const size_t first = (run.first + step) * validation_batch;
      const size_t end = std::min(first + validation_batch, validation_chunks.size());
      for (size_t sample = first; sample < end; ++sample) validation.add(sample);
    }
    steps.push_back(validation.take());
  }
  return steps;
}

size_t VisitOrder::most_chunks_per_step() const {
  size_t chunks = 0;
  for (const auto* of_samples : {&train_chunks, &validation_chunks}) {
    for (size_t i = 0; i < of_samples->size(); ++i) {
      chunks = std::max<size_t>(chunks, (*of_samples)[i] + 1);
    }
  }
  const auto samples_in = [&](size_t step) {
    size_t samples = 0;
    for (const IndexRange& run : leaves) {
      for (size_t leaf = run.first; leaf < run.first + run.count; ++leaf) {
        samples += division.leaf(step, leaf).count;
      }
    }
    return samples;
  };
  // Leaves have as many samples in each step but the last.
  const size_t training =
      train_steps() == 0 ? 0 : std::max(samples_in(0), samples_in(train_steps() - 1));
  const size_t validation = std::min(validation_chunks.size(), batches.size() * validation_batch);
  return std::min(chunks, std::max(training, validation));
}

uint64_t VisitOrder::next_training(uint64_t step) const {
  if (train_steps() == 0) return std::numeric_limits<uint64_t>::max();
  const uint64_t epoch = step / steps_per_epoch(), within = step % steps_per_epoch();
  return within < train_steps() ? step : (epoch + 1) * steps_per_epoch();
}

uint64_t VisitOrder::next_validation(uint64_t step, int rank) const {
  const size_t own = validation_steps() == 0 ? 0 : batches[size_t(rank)].count;
  if (own == 0) return std::numeric_limits<uint64_t>::max();
  const uint64_t epoch = step / steps_per_epoch(), within = step % steps_per_epoch();
  if (within >= train_steps() + own) return (epoch + 1) * steps_per_epoch() + train_steps();
  return epoch * steps_per_epoch() + std::max(within, train_steps());
}

}  // namespace dlflow::runtime
