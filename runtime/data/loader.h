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
  Division division;                      ///< the loader sets the number of samples
  size_t first_leaf = 0, own_leaves = 1;  ///< this rank's leaves
  uint64_t seed = 0;
  bool shuffle = true;  ///< false: samples in the order of the dataset, for evaluation

  /// If set, samples are drawn by these shares of the classes (ClassSampler), not once each.
  std::optional<std::vector<float>> class_shares;

  /// Samples per block of texts of similar length (text_order.h), if the order is random; 0: no
  /// blocks.
  size_t text_block = 0;
  Augmentation augmentation;
  uint32_t num_classes = 0;     ///< of the model; needed if the augmentation mixes
  Normalization normalization;  ///< one scale and shift per channel

  /// Checks each image before it is read; null: no checks. Must outlive the loader.
  StepImages* images = nullptr;

  /// The order of the dataset's samples for `seed`, if the ranks of a node share it; null: the
  /// loader has its own. Must outlive the loader, which stops it.
  EpochOrder* order = nullptr;

  /// Batches that a thread prepares ahead; 0: next() prepares its own. With a rank on every core, a
  /// thread only slows them down: 64 Fashion-MNIST images cost 40 us, with a thread 60 us more.
  size_t prefetch = 0;

  /// Threads that prepare the samples of a batch, including the one that fills the batch.
  size_t threads = 1;
};

/// One leaf of a global batch.
struct Leaf {
  std::span<const float> images;           ///< (count, C, H, W), normalised; 64-byte aligned
  std::span<const uint32_t> labels;        ///< (count); 0 if the samples have none
  std::span<const uint32_t> samples = {};  ///< (count), indices in the data set
  uint64_t epoch = 0;
  /// (count, T); or the shares of classes (count, classes); or masks (count, H * W); or for texts
  /// (count), the number of tokens of each; or none
  std::span<const float> targets = {};

  /// For texts: tokens per row of `images`, which is padded_length() of the longest; those behind
  /// the end of a text are 0. Else 0.
  size_t length = 0;

  size_t count() const { return labels.size(); }  ///< 0 if the batch has fewer samples than leaves
};

/// This rank's leaves of a global batch. The spans are valid until the next call of the loader.
struct LocalBatch {
  std::span<const Leaf> leaves;
  size_t global_samples = 0;  ///< over all ranks; the divisor of the loss
  uint64_t epoch = 0;
  uint64_t step = 0;         ///< within the epoch
  size_t global_tokens = 0;  ///< number of tokens in texts, over all ranks
  bool has_classes = false;  ///< the texts have classes, so each counts as one sample

  /// The divisor of the sum of losses: the number of predicted tokens (all but the first of each
  /// text) for texts without classes; else of samples.
  size_t global_weight() const {
    const bool by_tokens = !has_classes && global_tokens > global_samples;
    return by_tokens ? global_tokens - global_samples : global_samples;
  }
};

/// LoaderOptions::threads on `cores` cores: `asked`, or else all cores for decoding, and one thread
/// for anything cheaper.
size_t loader_threads(std::optional<size_t> asked, const Dataset& dataset, int cores);

/// Delivers this rank's batches in order, epoch after epoch. The batches depend on dataset, options
/// and position alone, never on `prefetch`, `threads` or timing.
class Loader {
 public:
  /// `dataset` must outlive the loader.
  Loader(const Dataset& dataset, const LoaderOptions& options);
  ~Loader();

  size_t steps_per_epoch() const;

  /// Makes next() deliver this step; `step` may be steps_per_epoch(), the first of the next epoch.
  void seek(uint64_t epoch, uint64_t step);

  LocalBatch next();

  /// Whether next() returns without waiting: a thread has made its batch.
  bool is_ready() const;

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace dlflow::runtime
