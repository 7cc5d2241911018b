#include "runtime/train/settings_kept.h"

#include "runtime/settings/parts.h"

namespace dlflow::runtime {
namespace {

const char* name(RateScaling scaling) {
  if (scaling == RateScaling::None) return "none";
  return scaling == RateScaling::Linear ? "linear" : "sqrt";
}

Json in_json(const std::vector<ParameterGroup>& groups) {
  Json list = Json::array();
  for (const ParameterGroup& group : groups) {
    const Json decay = group.weight_decay ? Json(*group.weight_decay) : Json("that of all");
    list.push_back({group.match, group.lr_multiplier, decay});
  }
  return list;
}

Json in_json(const std::optional<EarlyStop>& stop) {
  if (!stop) return "never";
  Json list = {stop->metric, stop->patience ? Json(*stop->patience) : Json("never"),
               stop->min_change};
  if (stop->reach) list.push_back(*stop->reach);
  return list;
}

Json in_json(const std::optional<std::vector<float>>& class_shares) {
  if (!class_shares) return "shuffle";
  return class_shares->empty() ? Json("balanced") : Json(*class_shares);
}

std::string in_words(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

Json settings_kept(const TrainSettings& s) {
  const OptimizerOptions& optimizer = s.update.optimizer;
  const PixelStatistics normalize = s.normalize.value_or(PixelStatistics{});
  return {{"momentum", optimizer.momentum},
          {"optimizer.nesterov", optimizer.nesterov},
          {"optimizer.betas", {optimizer.beta1, optimizer.beta2}},
          {"optimizer.eps", optimizer.epsilon},
          {"optimizer.alpha", optimizer.alpha},
          {"optimizer.trust", optimizer.trust},
          {"weight_decay", optimizer.weight_decay},
          {"decay", s.update.decays_vectors ? "all" : "weights"},
          {"clip_norm", s.update.clip_norm.value_or(0)},
          {"lr", s.lr},
          {"lr_scaling", name(s.update.lr_scaling)},
          {"base_batch", s.update.base_batch},
          {"schedule", name(s.schedule)},
          {"min_lr", s.course.min_lr},
          {"lr_power", s.course.power},
          {"lr_factor", s.course.factor},
          {"lr_steps", s.course.steps ? Json(*s.course.steps) : Json("as many as usual")},
          {"warmup_epochs", s.warmup_epochs},
          {"groups", in_json(s.update.groups)},
          {"freeze", s.freeze},
          {"ema", s.update.ema},
          {"keep_best", s.keep_best.empty() ? "the last" : s.keep_best},
          {"stop_early", in_json(s.stop_early)},
          {"label_smoothing", s.label_smoothing},
          {"class_weights", s.class_weights},
          {"last_batch", s.last_batch == LastBatch::Keep ? "keep" : "drop"},
          {"batch_norm", s.joint_batch_norm ? "global" : "leaf"},
          {"validation", s.validation ? Json(*s.validation) : Json("as many as usual")},
          {"sampling", in_json(s.class_shares)},
          {"augment.crop", s.augmentation.crop_padding},
          {"augment.flip", s.augmentation.flip},
          {"augment.resized_crop", s.augmentation.resized_crop},
          {"augment.rotate", s.augmentation.rotate},
          {"augment.brightness", s.augmentation.brightness},
          {"augment.contrast", s.augmentation.contrast},
          {"augment.saturation", s.augmentation.saturation},
          {"augment.cutout", s.augmentation.cutout},
          {"augment.mixup", s.augmentation.mixup},
          {"augment.cutmix", s.augmentation.cutmix},
          {"normalize.mean", normalize.mean},
          {"normalize.std", normalize.std}};
}

std::vector<std::string> changed_settings(const Json& saved, const Json& now) {
  std::vector<std::string> changes;
  for (const auto& [key, value] : saved.items()) {
    const auto mine = now.find(key);
    if (mine != now.end() && *mine == value) continue;
    changes.push_back(
        key + " " + in_words(value) +
        (mine == now.end() ? ", which this version does not support" : ", not " + in_words(*mine)));
  }
  return changes;
}

}  // namespace dlflow::runtime
