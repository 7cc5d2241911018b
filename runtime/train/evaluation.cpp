#include "runtime/train/evaluation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "runtime/data/loader.h"
#include "runtime/data/shard.h"
#include "runtime/train/class_metrics.h"
#include "runtime/train/next_batch.h"

namespace dlflow::runtime {
namespace {

struct Sums {
  double loss = 0;
  int64_t num_correct = 0;
  int64_t num_targets = 0;
  int64_t num_in_top5 = 0;
  double squared_error = 0, absolute_error = 0;
};

/// Of texts: the mean over the tokens that are foretold.
double share_of_targets(const Sums& sums) {
  return sums.loss / double(std::max<int64_t>(sums.num_targets, 1));
}

/// The classes of all samples, and their probabilities as far as the AUC needs them.
class ClassScores {
 public:
  ClassScores(const Model& model, size_t num_samples)
      : classes_(model.loss == LossKind::SoftmaxCrossEntropy ? size_t(model.num_classes()) : 0),
        has_area_(classes_ >= 2 && classes_ <= size_t(kMostAucClasses)),
        predicted_(classes_ > 0 ? num_samples : 0),
        probabilities_(has_area_ ? num_samples * classes_ : 0) {}

  /// Of the samples from `first` on.
  void add(size_t first, std::span<const float> scores) {
    if (classes_ == 0) return;
    for (size_t i = 0; i * classes_ < scores.size(); ++i) {
      const std::span<const float> row = scores.subspan(i * classes_, classes_);
      const auto highest = std::ranges::max_element(row);
      predicted_[first + i] = uint32_t(highest - row.begin());
      if (!has_area_) continue;
      const auto p = std::span(probabilities_).subspan((first + i) * classes_, classes_);
      float sum = 0;
      for (size_t c = 0; c < classes_; ++c) sum += p[c] = std::exp(row[c] - *highest);
      for (float& value : p) value /= sum;
    }
  }

  /// Those that `rank` has added, to all ranks. Collective.
  void share(Communicator& comm, int rank, IndexRange samples) {
    if (classes_ == 0) return;
    comm.broadcast(
        std::as_writable_bytes(std::span(predicted_).subspan(samples.first, samples.count)), rank);
    if (!has_area_) return;
    comm.broadcast(
        std::as_writable_bytes(
            std::span(probabilities_).subspan(samples.first * classes_, samples.count * classes_)),
        rank);
  }

  void measure(std::span<const uint32_t> labels, Evaluation& result) && {
    if (classes_ == 0) return;
    result.f1 = macro_f1(count_classes(labels, predicted_, classes_));
    if (has_area_) result.auc = area_under_curve(labels, probabilities_, classes_);
    result.predicted = std::move(predicted_);
  }

 private:
  size_t classes_;  // 0: the model tells none apart
  bool has_area_;
  std::vector<uint32_t> predicted_;
  std::vector<float> probabilities_;
};

/// Of a network that tells a class of each pixel: how often it took which class for which. Whole
/// numbers, so that they have the same bits for any number of ranks.
class PixelClasses {
 public:
  explicit PixelClasses(const Model& model)
      : classes_(has_masks(model.loss) ? size_t(model.num_classes()) : 0),
        pixels_(classes_ > 0 ? size_t(model.num_scores()) / classes_ : 0),
        matrix_(classes_ * classes_) {}

  /// \param masks   (count, pixels)
  /// \param scores  (count, classes, pixels)
  void add(std::span<const float> masks, std::span<const float> scores) {
    if (classes_ == 0) return;
    for (size_t first = 0; first < masks.size(); first += pixels_) {
      highest_classes(scores.subspan(first * classes_, pixels_ * classes_), pixels_, predicted_);
      for (size_t i = 0; i < pixels_; ++i) {
        const auto label = uint32_t(masks[first + i]);
        if (label != kNoClass) matrix_[label * classes_ + predicted_[i]] += 1;
      }
    }
  }

  /// The sum over ranks is on all of them. Collective.
  void add_up(Communicator& comm) {
    const std::vector<int64_t> own = std::exchange(matrix_, std::vector<int64_t>(matrix_.size()));
    if (classes_ == 0) return;
    for (int rank = 0; rank < comm.size(); ++rank) {
      std::vector<int64_t> theirs = own;
      comm.broadcast(std::as_writable_bytes(std::span(theirs)), rank);
      for (size_t i = 0; i < theirs.size(); ++i) matrix_[i] += theirs[i];
    }
  }

  void measure(Evaluation& result) && {
    if (classes_ == 0) return;
    const std::vector<ClassCounts> counts = count_classes(matrix_, classes_);
    result.iou = mean_iou(counts);
    result.dice = macro_f1(counts);
    result.pixels = std::move(matrix_);
  }

 private:
  size_t classes_;  // 0: the model tells none of pixels
  size_t pixels_;
  std::vector<int64_t> matrix_;
  std::vector<uint8_t> predicted_;  // of one sample
};

}  // namespace

void highest_classes(std::span<const float> scores, size_t pixels, std::vector<uint8_t>& classes) {
  std::vector<float> highest(scores.begin(), scores.begin() + std::ptrdiff_t(pixels));
  classes.assign(pixels, 0);
  for (size_t c = 1; c * pixels < scores.size(); ++c) {
    for (size_t i = 0; i < pixels; ++i) {
      const float score = scores[c * pixels + i];
      if (!(score > highest[i])) continue;
      highest[i] = score;
      classes[i] = uint8_t(c);
    }
  }
}

void require_fitting(const Model& model, Dataset& dataset, const std::string& name,
                     Purpose purpose) {
  require_fit(model, dataset, name, purpose);
  if (model.loss != LossKind::SoftmaxCrossEntropy) return;  // labels say nothing to it
  if (learns_shares(model, dataset)) dataset.take_targets_as_shares();
  dataset.num_classes = std::min(dataset.num_classes, uint32_t(model.num_classes()));
}

Inference inference_with(NetworkSet& networks, std::span<const float> weights) {
  networks.use_weights(weights);
  return [&networks](const Leaf& part) {
    Network& network = networks.get(int64_t(part.count()), 0, int64_t(part.length));
    const BatchResult result = network.forward(part.images, part.labels, part.targets);
    return Inferred{result, network.scores()};
  };
}

IndexRange part_of(IndexRange range, int part, int parts) {
  const size_t first = range.count * size_t(part) / size_t(parts);
  const size_t end = range.count * size_t(part + 1) / size_t(parts);
  return {range.first + first, end - first};
}

IndexRange batches_of(size_t num_samples, size_t batch, int rank, int num_ranks) {
  return part_of({0, Division{num_samples, batch}.num_steps()}, rank, num_ranks);
}

std::map<std::string, double> Evaluation::metrics() const {
  std::map<std::string, double> all = {{"loss", loss}};
  if (!rmse) all[iou ? "pixel_accuracy" : "accuracy"] = accuracy;
  if (iou) all["iou"] = *iou;
  if (dice) all["dice"] = *dice;
  if (rmse) all["rmse"] = *rmse;
  if (mae) all["mae"] = *mae;
  if (top5) all["top5"] = *top5;
  if (f1) all["f1"] = *f1;
  if (auc) all["auc"] = *auc;
  if (perplexity) all["perplexity"] = *perplexity;
  return all;
}

Evaluation evaluate(Communicator& comm, const Model& model, const Inference& infer,
                    const Dataset& dataset, const Normalization& normalization, size_t batch,
                    const std::function<void(size_t, size_t)>& progress, StepImages* images,
                    size_t loader_threads) {
  LoaderOptions options;
  options.division.global_batch = batch;
  options.shuffle = false;
  options.normalization = normalization;
  options.images = images;
  options.threads = loader_threads;
  Loader loader(dataset, options);
  std::vector<Sums> batches(loader.steps_per_epoch());
  const auto run_of = [&](int rank) {
    return batches_of(dataset.size(), batch, rank, comm.size());
  };
  const size_t first = run_of(comm.rank()).first, end = first + run_of(comm.rank()).count;
  ClassScores scores(model, dataset.size());
  PixelClasses pixels(model);
  loader.seek(0, first);
  for (size_t i = first; i < end; ++i) {
    const Leaf part = next_batch(comm, loader).leaves[0];
    const auto [result, of_samples] = infer(part);
    scores.add(i * batch, of_samples);
    pixels.add(part.targets, of_samples);
    batches[i] = {result.loss_sum,    result.num_correct,   result.num_targets,
                  result.num_in_top5, result.squared_error, result.absolute_error};
    if (progress) progress((i + 1 - first) * dataset.size() / (end - first), dataset.size());
  }
  Sums all;  // in the order of batches, so that it has the same bits for any number of ranks
  for (int rank = 0; rank < comm.size(); ++rank) {
    const IndexRange run = run_of(rank);
    const std::span<Sums> theirs = std::span(batches).subspan(run.first, run.count);
    comm.broadcast(std::as_writable_bytes(theirs), rank);
    const size_t begin = std::min(run.first * batch, dataset.size());
    const size_t behind = std::min((run.first + run.count) * batch, dataset.size());
    scores.share(comm, rank, {begin, behind - begin});
    for (const Sums& sums : theirs) {
      all.loss += sums.loss;
      all.num_correct += sums.num_correct;
      all.num_targets += sums.num_targets;
      all.num_in_top5 += sums.num_in_top5;
      all.squared_error += sums.squared_error;
      all.absolute_error += sums.absolute_error;
    }
  }
  pixels.add_up(comm);
  const auto share = [&](int64_t count) {
    return double(count) / double(std::max<int64_t>(all.num_targets, 1));
  };
  Evaluation result;
  result.loss = dataset.has_texts() ? share_of_targets(all) : all.loss / double(dataset.size());
  result.accuracy = share(all.num_correct);
  const bool has_classes = model.loss == LossKind::SoftmaxCrossEntropy;
  if (has_classes && model.num_classes() > 5) result.top5 = share(all.num_in_top5);
  if (model.loss == LossKind::Reconstruction) result.rmse = std::sqrt(result.loss);
  if (has_targets(model.loss) && model.loss != LossKind::BinaryCrossEntropy) {
    result.rmse = std::sqrt(all.squared_error / double(dataset.size()));
    result.mae = all.absolute_error / double(dataset.size());
  }
  if (model.loss == LossKind::NextToken) result.perplexity = std::exp(result.loss);
  std::move(pixels).measure(result);
  if (has_classes) std::move(scores).measure(dataset.labels.copy(), result);
  return result;
}

}  // namespace dlflow::runtime
