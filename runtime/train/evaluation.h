#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/data/dataset.h"
#include "runtime/data/loader.h"
#include "runtime/data/normalization.h"
#include "runtime/data/shard.h"
#include "runtime/data/step_images.h"
#include "runtime/fit/fit.h"
#include "runtime/fit/measures.h"
#include "runtime/train/network_set.h"

namespace dlflow::runtime {

/// The batch size with which a training run evaluates itself.
constexpr size_t kEvaluationBatch = 250;

/// The metrics of a network over all samples of a dataset.
struct Evaluation {
  bool is_measured = true;           ///< whether some pixel or token is not ignored
  double loss = 0;                   ///< mean
  double accuracy = 0;               ///< share of correct answers
  std::optional<double> top5;        ///< share of labels among the five highest scores
  std::optional<double> rmse;        ///< for reconstruction or targets, instead of the accuracy
  std::optional<double> mae;         ///< mean absolute difference to the targets
  std::optional<double> perplexity;  ///< for language models: e to the power of the loss
  std::optional<double> f1;          ///< for classes: runtime/train/class_metrics.h
  std::optional<double> auc;         ///< for 2 to kMostAucClasses classes, unless it is undefined
  std::vector<uint32_t> predicted;   ///< for classes: the predicted class of each sample
  std::optional<double> iou, dice;   ///< for classes of pixels: mean_iou() and macro_f1()
  std::vector<int64_t> pixels;  ///< for classes of pixels: confusion_matrix(), without ignored ones

  /// The metrics by the names that requirements and selections use: those of metric_names(); empty
  /// if nothing is measured.
  std::map<std::string, double> metrics() const;
};

/// Throws Error{InvalidInput} unless `dataset` fits `model`: the shape of its samples, and the
/// targets or labels that the model's loss requires. Turns shares of classes into labels, and
/// limits the dataset's classes to the model's. `name` is the dataset's, for the message.
void require_fitting(const Model& model, Dataset& dataset, const std::string& name,
                     Purpose purpose = Purpose::Learn);

/// Finds the class with the highest score for each pixel of a sample; the first wins a tie.
/// \param scores   (classes, pixels)
/// \param classes  becomes (pixels)
void highest_classes(std::span<const float> scores, size_t pixels, std::vector<uint8_t>& classes);

/// Returns part number `part` of `range`, split into `parts` whose sizes differ by at most one.
IndexRange part_of(IndexRange range, int part, int parts);

/// Returns the batches of `batch` samples that a rank measures.
IndexRange batches_of(size_t num_samples, size_t batch, int rank, int num_ranks);

/// The result of a leaf, and its scores, one row per sample; valid until the next leaf is computed.
struct Inferred {
  BatchResult result;
  std::span<const float> scores;
};

/// Computes the result of a leaf on any device.
using Inference = std::function<Inferred(const Leaf&)>;

/// Returns inference by `networks` with `weights`; both must outlive it and stay unchanged.
Inference inference_with(NetworkSet& networks, std::span<const float> weights);

/// The samples of a data set in their order, `batch` at a time, for inference. Its references must
/// outlive it.
struct OrderedSamples {
  const Dataset& dataset;
  const Normalization& normalization;
  size_t batch;
  StepImages* images = nullptr;  ///< checks them when they are read; null: they need no check
  size_t loader_threads = 1;

  Loader loader() const;
};

/// Evaluates a model on `samples`, which the ranks share out. Every rank gets the result.
/// Collective. `progress(done, total)` is called after each batch.
Evaluation evaluate(Communicator& comm, const Model& model, const Inference& infer,
                    const OrderedSamples& samples,
                    const std::function<void(size_t, size_t)>& progress = {});

/// Returns the loader's next batch. A rank that waits for `images`, those of the loader's options,
/// does not count as stalled as long as data arrives.
LocalBatch next_batch(const Communicator& comm, Loader& loader, StepImages* images);

}  // namespace dlflow::runtime
