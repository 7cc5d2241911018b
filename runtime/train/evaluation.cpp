#include "runtime/train/evaluation.h"

#include "base/error.h"
#include "runtime/data/loader.h"
#include "runtime/train/agreement.h"

namespace dlflow::runtime {
namespace {

struct Sums {
  double loss = 0;
  int64_t num_correct = 0;
};

}  // namespace

void require_fitting(const Model& model, const Dataset& dataset, const std::string& name) {
  const ImageShape& s = dataset.shape;
  const Shape pictures = {int64_t(s.channels), int64_t(s.height), int64_t(s.width)};
  const bool rows = model.input.size() == 1 && model.input[0] == int64_t(s.num_values());
  if (model.input != pictures && !rows) {
    throw Error(Errc::InvalidInput, "model '" + model.name + "' takes " + to_string(model.input) +
                                        ", " + name + " has " + to_string(pictures));
  }
  for (size_t i = 0; i < dataset.size(); ++i) {
    if (int64_t(dataset.labels[i]) < model.num_classes()) continue;
    throw Error(Errc::InvalidInput, "model '" + model.name + "' knows " +
                                        std::to_string(model.num_classes()) + " classes, " + name +
                                        " has the label " + std::to_string(dataset.labels[i]) +
                                        " (sample " + std::to_string(i) + ")");
  }
}

Evaluation evaluate(Communicator& comm, NetworkSet& networks, std::span<const float> weights,
                    const Dataset& dataset, const Normalization& normalization, size_t batch,
                    const std::function<void(size_t, size_t)>& progress) {
  LoaderOptions options;
  options.global_batch = batch * size_t(comm.size());
  options.rank = comm.rank();
  options.num_ranks = comm.size();
  options.shuffle = false;
  options.normalization = normalization;
  Loader loader(dataset, options);
  Sums mine;
  size_t done = 0;
  for (size_t step = 0; step < loader.steps_per_epoch(); ++step) {
    const Batch part = loader.next();
    done += part.global_samples;
    if (part.count() > 0) {
      Network& network = networks.get(int64_t(part.count()));
      network.use_weights(weights);
      const BatchResult result = network.forward(part.images, part.labels);
      mine.loss += result.loss_sum;
      mine.num_correct += result.num_correct;
    }
    if (progress) progress(done, dataset.size());
  }
  Sums all;
  for (const Sums& sums : gather(comm, mine)) {
    all.loss += sums.loss;
    all.num_correct += sums.num_correct;
  }
  const double samples = double(dataset.size());
  return {all.loss / samples, double(all.num_correct) / samples};
}

}  // namespace dlflow::runtime
