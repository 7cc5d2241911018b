#include "runtime/train/evaluation.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "runtime/data/loader.h"
#include "runtime/data/shard.h"
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

[[noreturn]] void refuse_data(const Model& model, const std::string& reason) {
  throw Error(Errc::InvalidInput, "model '" + model.name + "' " + reason);
}

/// The samples of `dataset` have targets, or labels, as the loss wants them.
void require_answers(const Model& model, const Dataset& dataset, const std::string& name) {
  const std::string loss = "has 'loss: " + runtime::name(model.loss) + "'";
  const uint32_t targets = dataset.num_targets;
  if (!has_targets(model.loss)) {
    if (targets == 0 || model.loss != LossKind::SoftmaxCrossEntropy) return;
    refuse_data(model, loss + ", which wants labels, and " + name + " has " +
                           std::to_string(targets) +
                           " targets a sample; write 'loss: mse', 'l1', 'huber' or 'bce'");
  }
  if (targets == 0) {
    refuse_data(model, loss + ", which wants targets, and " + name +
                           " has labels; pack it with targets (dlflow data pack --help), or leave "
                           "'loss' out");
  }
  if (int64_t(targets) != model.num_classes()) {
    refuse_data(model, "gives " + std::to_string(model.num_classes()) + " numbers a sample, " +
                           name + " has " + std::to_string(targets) + " targets");
  }
  if (model.loss != LossKind::BinaryCrossEntropy) return;
  for (size_t i = 0; i < dataset.size(); ++i) {
    for (const float target : dataset.targets[i]) {
      if (target == 0 || target == 1) continue;
      refuse_data(model, loss + ", whose targets are 0 or 1; sample " + std::to_string(i) + " of " +
                             name + " has " + std::to_string(target));
    }
  }
}

}  // namespace

void require_fitting(const Model& model, Dataset& dataset, const std::string& name) {
  const ImageShape& s = dataset.shape;
  const TensorShape pictures = {int64_t(s.channels), int64_t(s.height), int64_t(s.width)};
  const bool rows = model.input.size() == 1 && model.input[0] == int64_t(s.num_values());
  if (model.input != pictures && !rows) {
    throw Error(Errc::InvalidInput, "model '" + model.name + "' takes " + to_string(model.input) +
                                        ", " + name + " has " + to_string(pictures));
  }
  require_answers(model, dataset, name);
  if (model.loss != LossKind::SoftmaxCrossEntropy) return;  // labels say nothing to it
  for (size_t i = 0; i < dataset.size(); ++i) {
    if (int64_t(dataset.labels[i]) < model.num_classes()) continue;
    throw Error(Errc::InvalidInput, "model '" + model.name + "' knows " +
                                        std::to_string(model.num_classes()) + " classes, " + name +
                                        " has the label " + std::to_string(dataset.labels[i]) +
                                        " (sample " + std::to_string(i) + ")");
  }
  dataset.num_classes = std::min(dataset.num_classes, uint32_t(model.num_classes()));
}

std::vector<std::string> metric_names(const Model& model) {
  switch (model.loss) {
    case LossKind::SoftmaxCrossEntropy:
      if (model.num_classes() > 5) return {"loss", "accuracy", "top5"};
      return {"loss", "accuracy"};
    case LossKind::NextToken:
      return {"loss", "accuracy", "perplexity"};
    case LossKind::Reconstruction:
      return {"loss", "rmse"};
    case LossKind::MeanSquaredError:
    case LossKind::AbsoluteError:
    case LossKind::Huber:
      return {"loss", "rmse", "mae"};
    case LossKind::BinaryCrossEntropy:
      return {"loss", "accuracy"};
  }
  return {};
}

Inference inference_with(NetworkSet& networks, std::span<const float> weights) {
  networks.use_weights(weights);
  return [&networks](const Leaf& part) {
    return networks.get(int64_t(part.count())).forward(part.images, part.labels, part.targets);
  };
}

IndexRange batches_of(size_t num_samples, size_t batch, int rank, int num_ranks) {
  const size_t batches = Division{num_samples, batch}.num_steps();
  const size_t first = batches * size_t(rank) / size_t(num_ranks);
  return {first, batches * size_t(rank + 1) / size_t(num_ranks) - first};
}

std::map<std::string, double> Evaluation::metrics() const {
  std::map<std::string, double> all = {{"loss", loss}};
  if (!rmse) all["accuracy"] = accuracy;
  if (rmse) all["rmse"] = *rmse;
  if (mae) all["mae"] = *mae;
  if (top5) all["top5"] = *top5;
  if (perplexity) all["perplexity"] = *perplexity;
  return all;
}

Evaluation evaluate(Communicator& comm, const Model& model, const Inference& infer,
                    const Dataset& dataset, const Normalization& normalization, size_t batch,
                    const std::function<void(size_t, size_t)>& progress, StepImages* images) {
  LoaderOptions options;
  options.division.global_batch = batch;
  options.shuffle = false;
  options.normalization = normalization;
  options.images = images;
  Loader loader(dataset, options);
  std::vector<Sums> batches(loader.steps_per_epoch());
  const auto run_of = [&](int rank) {
    return batches_of(dataset.size(), batch, rank, comm.size());
  };
  const size_t first = run_of(comm.rank()).first, end = first + run_of(comm.rank()).count;
  loader.seek(0, first);
  for (size_t i = first; i < end; ++i) {
    const Leaf part = next_batch(comm, loader).leaves[0];
    const BatchResult result = infer(part);
    batches[i] = {result.loss_sum,    result.num_correct,   result.num_targets,
                  result.num_in_top5, result.squared_error, result.absolute_error};
    if (progress) progress((i + 1 - first) * dataset.size() / (end - first), dataset.size());
  }
  Sums all;  // in the order of batches, so that it has the same bits for any number of ranks
  for (int rank = 0; rank < comm.size(); ++rank) {
    const IndexRange run = run_of(rank);
    const std::span<Sums> theirs = std::span(batches).subspan(run.first, run.count);
    comm.broadcast(std::as_writable_bytes(theirs), rank);
    for (const Sums& sums : theirs) {
      all.loss += sums.loss;
      all.num_correct += sums.num_correct;
      all.num_targets += sums.num_targets;
      all.num_in_top5 += sums.num_in_top5;
      all.squared_error += sums.squared_error;
      all.absolute_error += sums.absolute_error;
    }
  }
  const auto share = [&](int64_t count) {
    return double(count) / double(std::max<int64_t>(all.num_targets, 1));
  };
  Evaluation result;
  result.loss = all.loss / double(dataset.size());
  result.accuracy = share(all.num_correct);
  const bool has_classes = model.loss == LossKind::SoftmaxCrossEntropy;
  if (has_classes && model.num_classes() > 5) result.top5 = share(all.num_in_top5);
  if (model.loss == LossKind::Reconstruction) result.rmse = std::sqrt(result.loss);
  if (has_targets(model.loss) && model.loss != LossKind::BinaryCrossEntropy) {
    result.rmse = std::sqrt(all.squared_error / double(dataset.size()));
    result.mae = all.absolute_error / double(dataset.size());
  }
  if (model.loss == LossKind::NextToken) result.perplexity = std::exp(result.loss);
  return result;
}

}  // namespace dlflow::runtime
