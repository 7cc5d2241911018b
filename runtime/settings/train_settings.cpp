#include "runtime/settings/train_settings.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "runtime/fit/measures.h"
#include "runtime/settings/parts.h"
#include "runtime/settings/with_reader.h"

namespace dlflow::runtime {
namespace {

std::vector<std::string> read_freeze(const Json* json) {
  std::vector<std::string> patterns;
  if (json == nullptr) return patterns;
  const std::string what = "a list of patterns of layers' names, like 'conv*'";
  if (!json->is_array() || json->empty()) WithReader::fail("freeze", what);
  for (const Json& pattern : *json) {
    if (!pattern.is_string()) WithReader::fail("freeze", what);
    patterns.push_back(pattern);
  }
  return patterns;
}

std::vector<float> read_class_numbers(const Json* json, const std::string& key) {
  std::vector<float> weights;
  if (json == nullptr) return weights;
  const std::string what = "a list of numbers above 0, one for each class";
  if (!json->is_array() || json->empty()) WithReader::fail(key, what);
  for (const Json& weight : *json) {
    if (!weight.is_number() || !(weight.get<double>() > 0)) {
      WithReader::fail(key, what);
    }
    weights.push_back(weight.get<float>());
  }
  return weights;
}

std::optional<std::vector<float>> read_sampling(const Json* json) {
  if (json == nullptr || *json == "shuffle") return {};
  if (*json == "balanced") return std::vector<float>();
  if (json->is_string()) {
    WithReader::fail("sampling", "'shuffle', 'balanced' or a list of numbers above 0");
  }
  return read_class_numbers(json, "sampling");
}

std::string read_metric(const Json* json, const std::string& key) {
  const std::vector<std::string> metrics = all_metric_names();
  std::string metric = json != nullptr && json->is_string() ? json->get<std::string>() : "";
  if (std::ranges::find(metrics, metric) != metrics.end()) return metric;
  WithReader::fail(key, "one of " + join(metrics, ", "));
}

std::optional<EarlyStop> read_early_stop(const Json* json) {
  if (json == nullptr) return {};
  WithReader reader(*json, "stop_early");
  EarlyStop stop;
  stop.metric = read_metric(reader.find("metric"), "stop_early.metric");
  if (reader.find("patience") != nullptr) stop.patience = reader.count("patience", 1, {});
  stop.min_change = reader.number("min_change", 0, stop.min_change);
  if (reader.find("reach") != nullptr) stop.reach = reader.number("reach", 0, {});
  reader.finish();
  if (!stop.patience && !stop.reach) {
    WithReader::fail("stop_early", "a mapping with 'patience', 'reach' or both");
  }
  return stop;
}

/// Throws Error{InvalidInput} naming the setting that GPUs do not support, and the remedy.
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
          "trains all ranks synchronously: leave 'cooperation' out");
  require(settings.activation_bytes == UINT64_MAX,
          "recomputes nothing: leave 'activation_memory' out");
  const UpdateSettings& update = settings.update;
  require(update.optimizer.kind == OptimizerOptions::Kind::Sgd && !update.optimizer.nesterov,
          "supports only 'optimizer: {kind: sgd}', without 'nesterov'");
  require(update.decays_vectors || update.optimizer.weight_decay == 0,
          "applies weight decay to all parameters: leave 'decay: weights' out");
  require(!update.clip_norm, "clips no gradients: leave 'clip_norm' out");
  require(update.accumulate == 1, "accumulates no gradients: leave 'accumulate' out");
  require(!update.shard_optimizer,
          "does not shard the optimizer's state: leave 'shard_optimizer' out");
  require(update.groups.empty(), "updates all parameters in the same way: leave 'groups' out");
  require(update.ema == 0, "keeps no mean of the weights: leave 'ema' out");
  require(settings.freeze.empty(), "trains all layers: leave 'freeze' out");
  require(settings.class_weights.empty(),
          "gives all classes the same weight: leave 'class_weights' out");
  require(!settings.augmentation.mixes(),
          "has one label for each image: leave 'mixup' and 'cutmix' out");
  require(settings.label_smoothing == 0, "smooths no labels: leave 'label_smoothing' out");
}

Precision read_precision(const Json* json, bool synchronous) {
  Precision precision;
  precision.exact = synchronous;
  if (json == nullptr) return precision;
  WithReader reader(*json, "precision");
  const Json* reduction = reader.find("reduction");
  if (reduction != nullptr && *reduction != "exact" && *reduction != "fast") {
    WithReader::fail("precision.reduction", "'exact' or 'fast'");
  }
  if (reduction != nullptr) precision.exact = *reduction == "exact";
  precision.leaves = reader.count("leaves", 1, precision.leaves);
  if (precision.leaves > kMostLeavesOfStep) {
    WithReader::fail("precision.leaves", "at most " + std::to_string(kMostLeavesOfStep));
  }
  if (!precision.exact && precision.leaves > 0) {
    WithReader::refuse("precision.leaves",
                       "is not an option of 'reduction: fast', which has one leaf per rank");
  }
  precision.compute = reader.word<Compute>(
      "compute",
      {{"fp32", Compute::Float32}, {"bf16", Compute::BFloat16}, {"tf32", Compute::TensorFloat32}});
  reader.finish();
  return precision;
}

/// More samples than a data set can have, small enough that products with it fit in 64 bits.
constexpr uint64_t kLargestBatch = UINT32_MAX;

std::optional<size_t> read_batch(WithReader& reader, const std::string& key) {
  if (reader.find(key) == nullptr) return {};
  const uint64_t batch = reader.count(key, 1, {});
  if (batch > kLargestBatch) WithReader::fail(key, "at most " + std::to_string(kLargestBatch));
  return batch;
}

constexpr WithReader::Words<DataType> kWires = {
    {"fp32", DataType::Float32}, {"fp16", DataType::Float16}, {"bf16", DataType::BFloat16}};

GradientTravel read_gradients(const Json* json, const Precision& precision) {
  GradientTravel travel;
  if (json == nullptr) return travel;
  WithReader reader(*json, "gradients");
  travel.wire = reader.word("wire", kWires);
  if (travel.wire != DataType::Float32 && precision.exact) {
    WithReader::fail("gradients.wire", "'fp32' unless 'precision' has 'reduction: fast'");
  }
  travel.priority = reader.flag("priority", travel.priority);
  travel.compression = read_compression(reader);
  if (travel.compression && precision.exact) {
    WithReader::refuse("gradients.compression",
                       "needs 'precision: {reduction: fast}': sums are no longer exact");
  }
  if (travel.compression && travel.wire != DataType::Float32) {
    WithReader::refuse("gradients.wire", "cannot be used together with 'compression'");
  }
  reader.finish();
  return travel;
}

/// With DGC, the compression has the momentum instead of the optimizer. Weight decay then has no
/// momentum either, so it is increased to have the same strength.
void take_over_momentum(TrainSettings& settings) {
  auto& compression = settings.gradients.compression;
  if (!compression || compression->method != CompressionMethod::Dgc) return;
  OptimizerOptions& optimizer = settings.update.optimizer;
  if (optimizer.kind != OptimizerOptions::Kind::Sgd || optimizer.nesterov) {
    WithReader::fail("optimizer", "'sgd', without nesterov, with 'compression: dgc'");
  }
  if (optimizer.momentum >= 1) WithReader::fail("momentum", "below 1 with 'compression: dgc'");
  compression->momentum = std::exchange(optimizer.momentum, 0);
  optimizer.weight_decay /= 1 - compression->momentum;
  for (ParameterGroup& group : settings.update.groups) {
    if (group.weight_decay) *group.weight_decay /= 1 - compression->momentum;
  }
}

bool is_synchronous(const TrainSettings& s) {
  return s.cooperation.kind == CooperationOptions::Kind::Synchronous;
}

/// Model, data and device.
void read_place(WithReader& reader, TrainSettings& s) {
  s.model = reader.text("model");
  s.data = reader.text("data");
  s.scratch = reader.flag("scratch", s.scratch);
  s.loader_threads = read_loader_threads(reader);
  s.device = reader.word<Device>("device", {{"cpu", Device::Cpu}, {"cuda", Device::Cuda}});
  s.activation_bytes = reader.size("activation_memory", s.activation_bytes);
}

void read_steps(WithReader& reader, TrainSettings& s) {
  s.epochs = reader.count("epochs", 1, {});
  if (reader.find("batch") != nullptr && reader.find("batch_per_rank") != nullptr) {
    WithReader::refuse("batch_per_rank", "cannot be used together with 'batch'");
  }
  s.batch = read_batch(reader, "batch").value_or(s.batch);
  s.batch_per_rank = read_batch(reader, "batch_per_rank");
  s.last_batch =
      reader.word<LastBatch>("last_batch", {{"keep", LastBatch::Keep}, {"drop", LastBatch::Drop}});
}

/// How gradients are computed and added.
void read_sums(WithReader& reader, TrainSettings& s) {
  s.precision = read_precision(reader.find("precision"), is_synchronous(s));
  s.gradients = read_gradients(reader.find("gradients"), s.precision);
  s.joint_batch_norm = reader.word<bool>("batch_norm", {{"leaf", false}, {"global", true}});
}

void read_update_keys(WithReader& reader, TrainSettings& s) {
  s.lr = reader.number("lr", 0, {});
  if (s.lr == 0) WithReader::fail("lr", "above 0");
  s.update = read_update(reader);
  take_over_momentum(s);
  if (s.update.accumulate > 1 && s.joint_batch_norm) {
    WithReader::fail("accumulate", "1 with 'batch_norm: global', which needs all batches at once");
  }
  s.warmup_epochs = reader.number("warmup_epochs", 0, s.warmup_epochs);
  if (s.warmup_epochs > double(s.epochs)) {
    WithReader::fail("warmup_epochs", "at most 'epochs', " + std::to_string(s.epochs));
  }
  s.schedule = read_schedule(reader);
  s.course = read_course(reader, s.schedule, s.lr);
}

/// Initial weights, and which of them are trained.
void read_start(WithReader& reader, TrainSettings& s) {
  s.seed = reader.count("seed", 0, s.seed);
  if (reader.find("start_from") != nullptr) s.start_from = reader.text("start_from");
  s.freeze = read_freeze(reader.find("freeze"));
}

/// How weights and epochs are judged.
void read_judgement(WithReader& reader, TrainSettings& s) {
  if (const Json* metric = reader.find("keep_best")) s.keep_best = read_metric(metric, "keep_best");
  s.stop_early = read_early_stop(reader.find("stop_early"));
  s.label_smoothing = reader.number("label_smoothing", 0, s.label_smoothing);
  if (s.label_smoothing >= 1) WithReader::fail("label_smoothing", "less than 1");
  s.class_weights = read_class_numbers(reader.find("class_weights"), "class_weights");
}

/// Which samples are used, and how they are augmented.
void read_samples(WithReader& reader, TrainSettings& s) {
  if (reader.find("validation") != nullptr) s.validation = reader.count("validation", 0, {});
  s.class_shares = read_sampling(reader.find("sampling"));
  s.augmentation = read_augmentation(reader.find("augment"));
  s.normalize = read_normalize(reader.find("normalize"));
}

void require_synchronous(const TrainSettings& s) {
  if (is_synchronous(s)) return;
  const std::string reason = "needs ranks that step together: leave 'cooperation' out";
  if (!s.freeze.empty()) WithReader::refuse("freeze", reason);
  if (s.update.ema > 0) WithReader::refuse("ema", reason);
}

void require_device(const TrainSettings& s) {
  if (s.device == Device::Cuda) return require_possible_on_gpu(s);
  if (s.precision.compute != Compute::TensorFloat32) return;
  WithReader::refuse("precision.compute",
                     "is 'tf32', which only GPUs have: write 'device: cuda' with it");
}

constexpr size_t kMostValidation = 5000;

size_t batch_at_a_time(const TrainSettings& settings, int num_ranks) {
  return settings.batch_per_rank ? *settings.batch_per_rank * size_t(num_ranks) : settings.batch;
}

}  // namespace

std::optional<size_t> read_loader_threads(WithReader& reader) {
  constexpr size_t kMost = 256;
  if (reader.find("loader_threads") == nullptr) return {};
  const size_t threads = reader.count("loader_threads", 1, 1);
  if (threads > kMost) WithReader::fail("loader_threads", "at most " + std::to_string(kMost));
  return threads;
}

size_t global_batch(const TrainSettings& settings, int num_ranks) {
  return batch_at_a_time(settings, num_ranks) * settings.update.accumulate;
}

LeafSettings leaf_settings(const TrainSettings& settings, int num_ranks) {
  return {batch_at_a_time(settings, num_ranks), settings.precision.leaves,
          settings.update.accumulate, settings.batch_per_rank ? size_t(num_ranks) : 0};
}

size_t num_leaves(const TrainSettings& settings, int num_ranks) {
  if (!settings.precision.exact) return size_t(num_ranks) * settings.update.accumulate;
  return num_leaves(leaf_settings(settings, num_ranks));
}

size_t validation_samples(const TrainSettings& settings, size_t num_samples) {
  return settings.validation.value_or(std::min(kMostValidation, num_samples / 10));
}

Schedule schedule_of(const TrainSettings& settings, size_t global_batch, uint64_t steps_per_epoch) {
  const double warmup = settings.warmup_epochs * double(steps_per_epoch);
  const double peak = scaled_rate(settings.lr, settings.update.lr_scaling,
                                  double(global_batch) / double(settings.update.base_batch));
  Schedule schedule{settings.schedule, peak, uint64_t(std::llround(warmup)),
                    settings.epochs * steps_per_epoch};
  const CourseOptions& course = settings.course;
  schedule.minimum_rate = std::min(course.min_lr, peak);
  schedule.power = course.power;
  schedule.factor = course.factor;
  if (course.steps) {
    for (const uint64_t epoch : *course.steps) schedule.drops.push_back(epoch * steps_per_epoch);
  } else {
    schedule.drops = {schedule.total_steps / 2, schedule.total_steps * 3 / 4};
  }
  return schedule;
}

std::string how_gradients_are_added(const TrainSettings& settings, int num_ranks) {
  const bool together = is_synchronous(settings);
  if (together && settings.precision.exact) {
    return "exact, leaves: " + std::to_string(num_leaves(settings, num_ranks));
  }
  std::string text = together ? "fast, ranks: " + std::to_string(num_ranks)
                              : describe(settings.cooperation, num_ranks);
  const GradientTravel& travel = settings.gradients;
  if (settings.update.accumulate > 1) {
    text += ", accumulate: " + std::to_string(settings.update.accumulate);
  }
  if (travel.wire != DataType::Float32)
    text += std::string(", wire: ") + WithReader::name_of(travel.wire, kWires);
  if (travel.compression) text += ", " + to_text(*travel.compression);
  return text;
}

TrainSettings parse_train_settings(const Json& with) {
  WithReader reader(with);
  TrainSettings s;
  s.cooperation = read_cooperation(with);
  reader.find("cooperation");
  read_place(reader, s);
  read_steps(reader, s);
  read_sums(reader, s);
  read_update_keys(reader, s);
  read_start(reader, s);
  read_judgement(reader, s);
  read_samples(reader, s);
  s.timeline = reader.count("timeline", 0, s.timeline);
  reader.finish();
  require_synchronous(s);
  require_device(s);
  return s;
}

}  // namespace dlflow::runtime
