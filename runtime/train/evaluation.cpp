#include "runtime/train/evaluation.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"
#include "runtime/data/loader.h"
#include "runtime/data/shard.h"
#include "runtime/train/class_metrics.h"

namespace dlflow::runtime {
namespace {

/// The mean over the targets; a text has one target per predicted token.
double mean_over_targets(double sum, const BatchResult& all) {
  return sum / double(std::max<int64_t>(all.num_targets, 1));
}

/// The predicted classes of all samples, and their probabilities where the AUC needs them.
class ClassScores {
 public:
  ClassScores(const Model& model, size_t num_samples)
      : classes_(model.loss == LossKind::SoftmaxCrossEntropy ? size_t(model.num_classes()) : 0),
        has_area_(classes_ >= 2 && classes_ <= size_t(kMostAucClasses)),
        predicted_(classes_ > 0 ? num_samples : 0),
        probabilities_(has_area_ ? num_samples * classes_ : 0) {}

  /// Adds the samples from `first` on.
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

  /// Broadcasts the `samples` that `rank` has added. Collective.
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
  size_t classes_;  // 0: the model has no classes
  bool has_area_;
  std::vector<uint32_t> predicted_;
  std::vector<float> probabilities_;
};

/// The confusion counts of a network that predicts a class for each pixel. They are integers, so
/// they have the same bits for any number of ranks.
class PixelClasses {
 public:
  explicit PixelClasses(const Model& model)
      : classes_(has_masks(model.loss) ? size_t(model.num_classes()) : 0),
        pixels_(classes_ > 0 ? size_t(model.num_scores()) / classes_ : 0),
        matrix_(classes_ * classes_ + 1) {}

  /// \param masks   (count, pixels)
  /// \param scores  (count, classes, pixels)
  void add(std::span<const float> masks, std::span<const float> scores) {
    if (classes_ == 0) return;
    for (size_t first = 0; first < masks.size(); first += pixels_) {
      highest_classes(scores.subspan(first * classes_, pixels_ * classes_), pixels_, predicted_);
      bool is_measured = false;
      for (size_t i = 0; i < pixels_; ++i) {
        const auto label = uint32_t(masks[first + i]);
        if (label == kNoClass) continue;
        matrix_[label * classes_ + predicted_[i]] += 1;
        is_measured = true;
      }
      matrix_.back() += is_measured ? 1 : 0;
    }
  }

  /// Sums over the ranks; all get the result. Collective.
  void add_up(Communicator& comm) {
    const std::vector<int64_t> own = std::exchange(matrix_, std::vector<int64_t>(matrix_.size()));
    if (classes_ == 0) return;
    for (int rank = 0; rank < comm.size(); ++rank) {
      std::vector<int64_t> theirs = own;
      comm.broadcast(std::as_writable_bytes(std::span(theirs)), rank);
      for (size_t i = 0; i < theirs.size(); ++i) matrix_[i] += theirs[i];
    }
  }

  /// The number of samples that are not ignored everywhere; valid after add_up().
  int64_t num_measured() const { return matrix_.back(); }

  void measure(Evaluation& result) && {
    if (classes_ == 0) return;
    matrix_.pop_back();
    const std::vector<ClassCounts> counts = count_classes(matrix_, classes_);
    result.iou = mean_iou(counts);
    result.dice = macro_f1(counts);
    result.pixels = std::move(matrix_);
  }

 private:
  size_t classes_;  // 0: the model predicts no pixels
  size_t pixels_;
  std::vector<int64_t> matrix_;     // (classes, classes), then num_measured()
  std::vector<uint8_t> predicted_;  // classes of one sample's pixels
};

/// Collects the results of this rank's batches, and combines them over all ranks.
class Measuring {
 public:
  Measuring(Communicator& comm, const Model& model, const OrderedSamples& samples)
      : comm_(comm),
        model_(model),
        dataset_(samples.dataset),
        batch_(samples.batch),
        batches_(Division{dataset_.size(), batch_}.num_steps()),
        scores_(model, dataset_.size()),
        pixels_(model) {}

  IndexRange batches_of_rank(int rank) const {
    return batches_of(dataset_.size(), batch_, rank, comm_.size());
  }

  /// \param batch  number of the batch `part`
  void add(size_t batch, const Leaf& part, const Inferred& inferred) {
    scores_.add(batch * batch_, inferred.scores);
    pixels_.add(part.targets, inferred.scores);
    batches_[batch] = inferred.result;
  }

  /// Collective.
  Evaluation finish() && {
    const BatchResult all = share();
    Evaluation result;
    if (has_masks(model_.loss)) result.is_measured = pixels_.num_measured() > 0;
    if (model_.loss == LossKind::NextToken) result.is_measured = all.num_targets > 0;
    result.loss = mean_loss(all);
    result.accuracy = mean_over_targets(double(all.num_correct), all);
    const bool has_classes = model_.loss == LossKind::SoftmaxCrossEntropy;
    if (has_classes && model_.num_classes() > 5) {
      result.top5 = mean_over_targets(double(all.num_in_top5), all);
    }
    if (model_.loss == LossKind::Reconstruction) result.rmse = std::sqrt(result.loss);
    if (has_targets(model_.loss) && model_.loss != LossKind::BinaryCrossEntropy) {
      result.rmse = std::sqrt(mean(all.squared_error));
      result.mae = mean(all.absolute_error);
    }
    if (model_.loss == LossKind::NextToken) result.perplexity = std::exp(result.loss);
    std::move(pixels_).measure(result);
    if (has_classes) std::move(scores_).measure(dataset_.labels.copy(), result);
    return result;
  }

 private:
  double mean(double sum) const { return sum / double(dataset_.size()); }

  /// Samples that are ignored everywhere do not count.
  double mean_loss(const BatchResult& all) const {
    if (dataset_.has_texts()) return mean_over_targets(all.loss_sum, all);
    if (!has_masks(model_.loss)) return mean(all.loss_sum);
    return all.loss_sum / double(std::max<int64_t>(pixels_.num_measured(), 1));
  }

  /// Adds in the order of batches, so that the result has the same bits for any number of ranks.
  BatchResult share() {
    BatchResult all;
    for (int rank = 0; rank < comm_.size(); ++rank) {
      const IndexRange run = batches_of_rank(rank);
      const std::span<BatchResult> theirs = std::span(batches_).subspan(run.first, run.count);
      comm_.broadcast(std::as_writable_bytes(theirs), rank);
      const size_t begin = std::min(run.first * batch_, dataset_.size());
      const size_t end = std::min((run.first + run.count) * batch_, dataset_.size());
      scores_.share(comm_, rank, {begin, end - begin});
      for (const BatchResult& batch : theirs) all.add(batch);
    }
    pixels_.add_up(comm_);
    return all;
  }

  Communicator& comm_;
  const Model& model_;
  const Dataset& dataset_;
  size_t batch_;
  std::vector<BatchResult> batches_;  // of all ranks; before share(), only this rank's are set
  ClassScores scores_;
  PixelClasses pixels_;
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
  if (model.loss != LossKind::SoftmaxCrossEntropy) return;  // other losses ignore labels
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
  if (!is_measured) return {};
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

Loader OrderedSamples::loader() const {
  LoaderOptions options;
  options.division.global_batch = batch;
  options.shuffle = false;
  options.normalization = normalization;
  options.images = images;
  options.threads = loader_threads;
  return {dataset, options};
}

Evaluation evaluate(Communicator& comm, const Model& model, const Inference& infer,
                    const OrderedSamples& samples,
                    const std::function<void(size_t, size_t)>& progress) {
  const size_t num_samples = samples.dataset.size();
  Loader loader = samples.loader();
  Measuring measuring(comm, model, samples);
  const IndexRange own = measuring.batches_of_rank(comm.rank());
  loader.seek(0, own.first);
  for (size_t done = 0; done < own.count; ++done) {
    const Leaf part = next_batch(comm, loader, samples.images).leaves[0];
    measuring.add(own.first + done, part, infer(part));
    if (progress) progress((done + 1) * num_samples / own.count, num_samples);
  }
  return std::move(measuring).finish();
}

LocalBatch next_batch(const Communicator& comm, Loader& loader, StepImages* images) {
  std::optional<Activity> activity;
  if (images != nullptr) activity.emplace(comm, "waits for data", &images->arrivals());
  return loader.next();
}

}  // namespace dlflow::runtime
