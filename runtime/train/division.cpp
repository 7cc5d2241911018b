#include "runtime/train/division.h"

#include <algorithm>

#include "base/error.h"

namespace dlflow::runtime {
namespace {

/// Like PyTorch, refuses batch normalisation over a single value: its result would be its bias.
void require_statistics(const TrainSettings& settings, const Model& model,
                        const Division& division) {
  const size_t samples = settings.joint_batch_norm ? division.samples_of(division.num_steps() - 1)
                                                   : *division.leaf_sizes().begin();
  if (samples > 1) return;
  for (const Layer& layer : model.layers) {
    const bool has_pixels = std::any_of(layer.shape.begin() + 1, layer.shape.end(),
                                        [](int64_t size) { return size > 1; });
    if (layer.kind != LayerKind::BatchNorm || layer.frozen || has_pixels) continue;
    throw Error(Errc::InvalidInput,
                "batch normalisation '" + layer.name +
                    "' would be over one value: " + std::to_string(division.num_samples) +
                    " samples in steps of " + std::to_string(division.global_batch) +
                    " leave a last step of one sample; use another 'batch', fewer leaves, or "
                    "'last_batch: drop'");
  }
}

}  // namespace

Division division_of(const TrainSettings& settings, const Model& model, size_t num_samples,
                     const Teams& teams) {
  const Division division = {num_samples, global_batch(settings, teams.num_ranks()),
                             num_leaves(settings, teams.size) * teams.count, settings.last_batch,
                             teams.own_mean && teams.count > 1};
  if (division.num_leaves > kMostLeavesOfStep) {
    throw Error(Errc::InvalidInput, "with: a step has " + std::to_string(division.num_leaves) +
                                        " leaves, more than " + std::to_string(kMostLeavesOfStep) +
                                        "; take a smaller 'accumulate'");
  }
  if (division.num_steps() == 0) {
    throw Error(Errc::InvalidInput, "with: 'last_batch: drop' leaves no step: there are " +
                                        std::to_string(num_samples) +
                                        " samples to train with, and a step takes " +
                                        std::to_string(division.global_batch));
  }
  require_statistics(settings, model, division);
  return division;
}

}  // namespace dlflow::runtime
