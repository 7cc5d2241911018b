#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/data/augment.h"
#include "runtime/data/class_sampler.h"
#include "runtime/data/dataset.h"
#include "runtime/data/epoch_order.h"
#include "runtime/data/normalization.h"
#include "runtime/data/shard.h"
#include "runtime/data/step_images.h"

namespace dlflow::runtime {

struct LoaderOptions {
  Division division;                      ///< the loader fills in the number of samples
  size_t first_leaf = 0, own_leaves = 1;  ///< of this rank
  uint64_t seed = 0;
  bool shuffle = true;  ///< false: samples in the order of the dataset, for evaluation

  /// Samples are drawn by these shares of the classes (ClassSampler), instead of each once.
  std::optional<std::vector<float>> class_shares;

  /// Samples that go into blocks of texts of similar length (text_order.h), where the order is
  /// random; 0: none do.
  size_t text_block = 0;
  Augmentation augmentation;
  uint32_t num_classes = 0;     ///< of the model, where the augmentation mixes
  Normalization normalization;  ///< one scale and shift per channel

  /// Checks each image before it is read; null: images need no check. Must outlive the loader.
  StepImages* images = nullptr;

  /// Of the dataset's samples and `seed`, if the ranks of a node have it in common; null: one of
  /// its own. Must outlive the loader, which stops it.
  EpochOrder* order = nullptr;

  /// Batches that a thread prepares ahead; 0: next() prepares its own. With a rank on every core a
  /// thread only takes time from them: 64 Fashion-MNIST images cost 40 us, with a thread 60 us
  /// more.
  size_t prefetch = 0;

  /// Threads that prepare the samples of a batch, that which fills the batch included.
  size_t threads = 1;
};

/// One leaf of a global batch.
struct Leaf {
  std::span<const float> images;           ///< (count, C, H, W), normalised; 64-byte aligned
  std::span<const uint32_t> labels;        ///< (count); 0 where the samples have none
  std::span<const uint32_t> samples = {};  ///< (count), their numbers in the data set
  uint64_t epoch = 0;
  /// (count, T), or the shares of classes (count, classes), or masks (count, H * W), or of texts
  /// (count), the number of tokens of each, or none
  std::span<const float> targets = {};

  /// Of texts of unequal length: tokens in a row of `images`, padded_length() of the longest; those
  /// behind the end of a text are 0. Else 0.
  size_t length = 0;

  size_t count() const { return labels.size(); }  ///< 0 if the batch has fewer samples than leaves
};

/// This rank's leaves of a global batch. The spans are valid until the next call of the loader.
struct LocalBatch {
  std::span<const Leaf> leaves;
  size_t global_samples = 0;  ///< over all ranks: what the loss is divided by
  uint64_t epoch = 0;
  uint64_t step = 0;         ///< within the epoch
  size_t global_tokens = 0;  ///< of texts of unequal length, over all ranks
  bool has_classes = false;  ///< of these texts, each of which counts as one

  /// What the sum of losses is divided by: of texts without classes all tokens but the first of
  /// each, which are foretold; else samples.
  size_t global_weight() const {
    const bool by_tokens = !has_classes && global_tokens > global_samples;
    return by_tokens ? global_tokens - global_samples : global_samples;
  }
};

/// LoaderOptions::threads on `cores` cores: `asked`, or as is usual: decoding is worth all of them,
/// and what else a loader does is not worth a thread.
size_t loader_threads(std::optional<size_t> asked, const Dataset& dataset, int cores);

/// Delivers this rank's batches one after the other, epoch after epoch. What it delivers depends on
/// dataset, options and position alone, never on `prefetch`, `threads` or timing.
class Loader {
 public:
  /// `dataset` must outlive the loader.
  Loader(const Dataset& dataset, const LoaderOptions& options);
  ~Loader();

  size_t steps_per_epoch() const;

  /// The next call of next() delivers this step; `step` may be steps_per_epoch(), which is the next
  /// epoch's first.
  void seek(uint64_t epoch, uint64_t step);

  LocalBatch next();

  /// Whether next() has not to wait: a thread has made its batch.
  bool is_ready() const;

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace dlflow::runtime
