#include "runtime/train/preparation.h"

#include <string>
#include <utility>
#include <vector>

#include "runtime/fit/fit.h"
#include "runtime/fit/measures.h"
#include "runtime/nn/patterns.h"
#include "runtime/settings/parts.h"
#include "runtime/train/agreement.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/settings_kept.h"
#include "runtime/train/shared_split.h"

namespace dlflow::runtime {
namespace {

std::vector<std::string> patterns_of(std::span<const ParameterGroup> groups) {
  std::vector<std::string> patterns;
  for (const ParameterGroup& group : groups) patterns.push_back(group.match);
  return patterns;
}

void require_colors(const Augmentation& augmentation, uint32_t channels) {
  const auto refuse = [&](const std::string& key, const std::string& wanted) {
    throw Error(Errc::InvalidInput, "with: 'augment." + key + "' is for pictures of " + wanted +
                                        "; the training data have " + std::to_string(channels));
  };
  const bool is_grey = channels == 1, is_colored = channels == 3;
  if (augmentation.saturation > 0 && !is_colored) refuse("saturation", "3 channels");
  if (augmentation.contrast > 0 && !is_grey && !is_colored) refuse("contrast", "1 or 3 channels");
}

void require_pictures(const Augmentation& augmentation, const Model& model,
                      const ImageShape& shape) {
  if (augmentation == Augmentation{}) return;
  const std::string begin = "with: 'augment' changes pictures; ";
  if (model.takes_tokens()) {
    throw Error(Errc::InvalidInput, begin + "model '" + model.name + "' reads tokens");
  }
  if (shape.height == 1 && shape.width == 1) {
    throw Error(Errc::InvalidInput, begin + "the training data are rows of a table; leave it out");
  }
  require_colors(augmentation, shape.channels);
  if (augmentation.mixes() && model.loss != LossKind::SoftmaxCrossEntropy) {
    throw Error(Errc::InvalidInput,
                "with: 'augment.mixup' and 'augment.cutmix' mix labels; model '" + model.name +
                    "' has 'loss: " + name(model.loss) + "'");
  }
}

/// Returns `job`. Throws Error{InvalidInput} on every rank, naming the difference, if ranks were
/// given different jobs or if the data does not fit the model. Collective.
TrainingJob same_on_all(Communicator& comm, TrainingJob job) {
  const Activity activity(comm, "reads the training data");
  const TrainSettings& s = job.settings;
  const auto& compression = s.gradients.compression;
  const int workers = num_workers(s.cooperation, comm.size());
  const Json settings = {{"device", int(s.device)},
                         {"epochs", s.epochs},
                         {"batch", runtime::global_batch(s, workers)},
                         {"cooperation", how_gradients_are_added(s, comm.size())},
                         {"exact", s.precision.exact},
                         {"leaves", runtime::num_leaves(s, comm.size())},
                         {"compute", int(s.precision.compute)},
                         {"wire", int(s.gradients.wire)},
                         {"priority", s.gradients.priority},
                         {"compression", compression ? to_text(*compression) : ""},
                         {"optimizer", name(s.update.optimizer.kind)},
                         {"shard_optimizer", s.update.shard_optimizer},
                         {"accumulate", s.update.accumulate},
                         {"kept", settings_kept(s)},
                         {"checkpoint", {int(job.policy.unit), job.policy.every}}};
  if (job.data_identity.empty()) job.data_identity = content_hash(job.data);
  require_agreement(comm, {{"the model", job.model.text},
                           {"the training data", job.data_identity},
                           {"the seed", std::to_string(s.seed)},
                           {"the settings", settings.dump()}});
  require_fitting(job.model, job.data, "the training data");
  return job;
}

}  // namespace

TrainingJob prepared(Communicator& comm, TrainingJob job) {
  job = same_on_all(comm, std::move(job));
  require_class_weights_fit(job.model, job.settings.class_weights.size());
  require_smoothing_fits(job.model, job.settings.label_smoothing);
  const bool has_shares = learns_shares(job.model, job.data);
  if (job.settings.device == Device::Cuda && has_shares) refuse_shares_on_gpu();
  freeze_layers(job.model, job.settings.freeze);
  require_groups_fit(job.model, patterns_of(job.settings.update.groups));
  if (!job.settings.start_from.empty()) {
    job.start = open_start_weights(comm, job.settings.start_from, job.model);
  }
  return job;
}

TrainingData held_out(Communicator& comm, Dataset data, const TrainSettings& settings) {
  const Activity activity(comm, "divides the training data");
  if (data.num_validation > 0 && settings.validation) refuse_validation_key();
  const bool counts_tokens = data.has_texts() && !data.has_text_classes();
  if (counts_tokens && settings.cooperation.kind != CooperationOptions::Kind::Synchronous) {
    throw Error(Errc::InvalidInput,
                "with: 'cooperation' counts samples, but the training data has texts of unequal "
                "length, which count by their tokens; leave the key out, or pack the text without "
                "--per");
  }
  const size_t validation = data.num_validation > 0 ? 0 : validation_samples(settings, data.size());
  return split_off_validation(comm, std::move(data), validation, settings.seed);
}

Normalization input_normalization(Communicator& comm, const TrainingJob& job,
                                  const Dataset& train) {
  require_pictures(job.settings.augmentation, job.model, train.shape);
  const size_t channels = train.shape.channels;
  if (job.model.takes_tokens()) {
    return {std::vector<float>(channels, 1.0f), std::vector<float>(channels, 0.0f)};
  }
  if (job.settings.normalize) return normalization_from(*job.settings.normalize, train);
  return shared_normalization(comm, train, job.images.get());
}

void require_same_arithmetic(Communicator& comm, const WeightLayout& layout,
                             const std::string& arithmetic, bool exact) {
  const std::string advice =
      "start all ranks on processors of one kind with one build, or with ONEDNN_MAX_CPU_ISA set to "
      "what all of them have (AVX2)";
  std::vector<CommonValue> values = {
      {"the order of the weights in memory", layout.formats(), arithmetic, advice}};
  if (exact) {
    values.push_back({"the arithmetic", arithmetic, arithmetic,
                      advice + ", or with precision: {reduction: fast}"});
  }
  require_agreement(comm, values);
}

}  // namespace dlflow::runtime
