#include "runtime/settings/device.h"

#include <string>

#include "runtime/settings/train_settings.h"
#include "runtime/settings/with_reader.h"

namespace dlflow::runtime {

Device read_device(const Json* name) {
  return WithReader::word<Device>(name, "device", "'cpu' or 'cuda'",
                                  {{"cpu", Device::Cpu}, {"cuda", Device::Cuda}});
}

void require_possible_on_gpu(const TrainSettings& settings) {
  const auto require = [](bool possible, const std::string& why) {
    if (!possible) throw SettingError("device", "'device: cuda' " + why);
  };
  require(!settings.precision.exact,
          "adds gradients in NCCL's order, which depends on the number of ranks: write 'precision: "
          "{reduction: fast}' with it");
  require(settings.precision.compute != Compute::BFloat16,
          "computes in fp32 or tf32: leave 'precision.compute' out, or write 'compute: tf32'");
  require(!settings.joint_batch_norm,
          "normalises over the samples of each GPU: leave 'batch_norm: global' out");
  require(settings.gradients.wire == DataType::Float32,
          "sends gradients as fp32: leave 'gradients.wire' out");
  require(!settings.gradients.compression,
          "sends gradients as they are: leave 'gradients.compression' out");
  require(settings.cooperation.kind == CooperationOptions::Kind::Synchronous,
          "has all ranks step together: leave 'cooperation' out");
  require(settings.activation_bytes == UINT64_MAX,
          "computes nothing twice: leave 'activation_memory' out");
  const UpdateSettings& update = settings.update;
  require(update.optimizer.kind == OptimizerOptions::Kind::Sgd && !update.optimizer.nesterov,
          "knows 'optimizer: {kind: sgd}' alone, without 'nesterov'");
  require(update.decays_vectors || update.optimizer.weight_decay == 0,
          "lets all parameters decay: leave 'decay: weights' out");
  require(!update.clip_norm, "clips no gradients: leave 'clip_norm' out");
  require(update.accumulate == 1, "accumulates no gradients: leave 'accumulate' out");
  require(!update.shard_optimizer,
          "keeps the optimizer's state whole: leave 'shard_optimizer' out");
  require(update.groups.empty(), "updates all parameters alike: leave 'groups' out");
  require(update.ema == 0, "keeps no mean of the weights: leave 'ema' out");
  require(settings.freeze.empty(), "trains all layers: leave 'freeze' out");
  require(settings.class_weights.empty(), "counts all classes alike: leave 'class_weights' out");
  require(!settings.augmentation.mixes(),
          "has one label for each image: leave 'mixup' and 'cutmix' out");
  require(settings.label_smoothing == 0, "smooths no labels: leave 'label_smoothing' out");
}

}  // namespace dlflow::runtime
