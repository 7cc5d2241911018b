#include "runtime/train/settings.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace dlflow::runtime {
namespace {

/// Reads keys of an object one by one and then knows which were not asked for.
class WithReader {
 public:
  /// `key`: where `with` is not the step's `with:` but one of its values.
  explicit WithReader(const Json& with, const std::string& key = "")
      : with_(with), prefix_(key.empty() ? "" : key + ".") {
    if (with.is_object()) return;
    throw Error(Errc::InvalidInput,
                "with: " + (key.empty() ? "" : "'" + key + "' is ") + "not a JSON object");
  }

  std::string text(const std::string& key) {
    const Json& value = required(key);
    if (!value.is_string() || value.get<std::string>().empty()) fail(prefix_ + key, "a path");
    return value;
  }

  uint64_t count(const std::string& key, uint64_t at_least, std::optional<uint64_t> otherwise) {
    if (otherwise && !find(key)) return *otherwise;
    const Json& value = required(key);
    // ${{ }} arithmetic may give 3.0 where 3 is meant.
    const bool whole =
        value.is_number_integer() ||
        (value.is_number_float() && value.get<double>() == std::floor(value.get<double>()));
    if (!whole || value.get<double>() < double(at_least)) {
      fail(prefix_ + key, "a whole number of at least " + std::to_string(at_least));
    }
    return value.get<uint64_t>();
  }

  double number(const std::string& key, double at_least, std::optional<double> otherwise) {
    if (otherwise && !find(key)) return *otherwise;
    const Json& value = required(key);
    if (!value.is_number() || !(value.get<double>() >= at_least)) {
      fail(prefix_ + key, "a number, not negative");
    }
    return value;
  }

  bool flag(const std::string& key, bool otherwise) {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) fail(prefix_ + key, "true or false");
    return *value;
  }

  const Json* find(const std::string& key) {
    known_.insert(key);
    const auto found = with_.find(key);
    return found == with_.end() ? nullptr : &*found;
  }

  [[noreturn]] static void fail(const std::string& key, const std::string& what) {
    throw Error(Errc::InvalidInput, "with: '" + key + "' must be " + what);
  }

  /// Refuses what nobody asked for: most likely a misspelt key.
  void finish() const {
    const std::vector<std::string> known(known_.begin(), known_.end());
    for (const auto& [key, value] : with_.items()) {
      if (known_.contains(key)) continue;
      throw Error(Errc::InvalidInput,
                  "with: unknown key '" + prefix_ + key + "'" + did_you_mean(key, known));
    }
  }

 private:
  const Json& required(const std::string& key) {
    const Json* value = find(key);
    if (value == nullptr)
      throw Error(Errc::InvalidInput, "with: '" + prefix_ + key + "' is missing");
    return *value;
  }

  const Json& with_;
  std::string prefix_;
  std::set<std::string> known_;
};

Augmentation read_augmentation(const Json* names) {
  constexpr uint32_t kCropPadding = 4;  // as on CIFAR in He et al., CVPR 2016
  Augmentation augmentation;
  if (names == nullptr) return augmentation;
  if (!names->is_array()) WithReader::fail("augment", "a list of 'crop' and 'flip'");
  for (const Json& name : *names) {
    if (name == "crop") {
      augmentation.crop_padding = kCropPadding;
    } else if (name == "flip") {
      augmentation.flip = true;
    } else {
      WithReader::fail("augment", "a list of 'crop' and 'flip'");
    }
  }
  return augmentation;
}

std::vector<double> read_numbers(const Json& json, const std::string& key) {
  std::vector<double> numbers;
  for (const Json& value : json.is_array() ? json : Json::array({json})) {
    if (!value.is_number()) WithReader::fail(key, "a number or one per channel");
    numbers.push_back(value);
  }
  return numbers;
}

std::optional<PixelStatistics> read_normalize(const Json* normalize) {
  if (normalize == nullptr) return {};
  if (!normalize->is_object() || !normalize->contains("mean") || !normalize->contains("std")) {
    WithReader::fail("normalize", "{mean: …, std: …}");
  }
  PixelStatistics statistics{read_numbers(normalize->at("mean"), "normalize.mean"),
                             read_numbers(normalize->at("std"), "normalize.std")};
  for (const double std : statistics.std) {
    if (!(std > 0)) WithReader::fail("normalize.std", "above 0");
  }
  return statistics;
}

Schedule::Shape read_schedule(const Json* name) {
  if (name == nullptr || *name == "cosine") return Schedule::Shape::Cosine;
  if (*name == "constant") return Schedule::Shape::Constant;
  WithReader::fail("schedule", "'cosine' or 'constant'");
}

bool read_joint_batch_norm(const Json* name) {
  if (name == nullptr || *name == "leaf") return false;
  if (*name == "global") return true;
  WithReader::fail("batch_norm", "'leaf' or 'global'");
}

Precision read_precision(const Json* json) {
  Precision precision;
  if (json == nullptr) return precision;
  WithReader reader(*json, "precision");
  const Json* reduction = reader.find("reduction");
  if (reduction != nullptr && *reduction != "exact" && *reduction != "fast") {
    WithReader::fail("precision.reduction", "'exact' or 'fast'");
  }
  precision.exact = reduction == nullptr || *reduction == "exact";
  precision.leaves = reader.count("leaves", 1, precision.leaves);
  if (!precision.exact && precision.leaves > 0) {
    WithReader::fail("precision.leaves", "left out with 'reduction: fast', which has one per rank");
  }
  if (const Json* compute = reader.find("compute")) {
    if (*compute != "fp32" && *compute != "bf16") {
      WithReader::fail("precision.compute", "'fp32' or 'bf16'");
    }
    precision.compute = *compute == "bf16" ? Compute::BFloat16 : Compute::Float32;
  }
  reader.finish();
  return precision;
}

GradientTravel read_gradients(const Json* json, const Precision& precision) {
  GradientTravel travel;
  if (json == nullptr) return travel;
  WithReader reader(*json, "gradients");
  if (const Json* wire = reader.find("wire")) {
    const std::map<Json, DataType> types = {
        {"fp32", DataType::Float32}, {"fp16", DataType::Float16}, {"bf16", DataType::BFloat16}};
    const auto type = types.find(*wire);
    if (type == types.end()) WithReader::fail("gradients.wire", "'fp32', 'fp16' or 'bf16'");
    travel.wire = type->second;
  }
  if (travel.wire != DataType::Float32 && precision.exact) {
    WithReader::fail("gradients.wire", "'fp32' unless 'precision' has 'reduction: fast'");
  }
  travel.priority = reader.flag("priority", travel.priority);
  reader.finish();
  return travel;
}

double per_channel(const std::vector<double>& numbers, size_t channel) {
  return numbers.size() == 1 ? numbers[0] : numbers[channel];
}

uint64_t parse_count(const std::string& text, const char* variable) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value == 0) {
    throw Error(Errc::InvalidInput, std::string("$") + variable + ": '" + text +
                                        "' is not a whole number of at least 1");
  }
  return value;
}

}  // namespace

size_t global_batch(const TrainSettings& settings, int num_ranks) {
  return settings.batch_per_rank ? *settings.batch_per_rank * size_t(num_ranks) : settings.batch;
}

size_t num_leaves(const TrainSettings& settings, int num_ranks) {
  constexpr size_t kMostLeaves = 8, kSmallestLeaf = 32;
  if (!settings.precision.exact) return size_t(num_ranks);
  if (settings.precision.leaves > 0) return settings.precision.leaves;
  const size_t leaves = global_batch(settings, num_ranks) / kSmallestLeaf;
  return std::clamp<size_t>(std::bit_floor(leaves), 1, kMostLeaves);
}

TrainSettings parse_train_settings(const Json& with) {
  WithReader reader(with);
  TrainSettings s;
  s.model = reader.text("model");
  s.data = reader.text("data");
  s.scratch = reader.flag("scratch", s.scratch);
  s.epochs = reader.count("epochs", 1, {});
  if (reader.find("batch") != nullptr && reader.find("batch_per_rank") != nullptr) {
    WithReader::fail("batch_per_rank", "left out where 'batch' is given");
  }
  s.batch = reader.count("batch", 1, s.batch);
  if (reader.find("batch_per_rank") != nullptr) {
    s.batch_per_rank = reader.count("batch_per_rank", 1, {});
  }
  s.precision = read_precision(reader.find("precision"));
  s.gradients = read_gradients(reader.find("gradients"), s.precision);
  s.joint_batch_norm = read_joint_batch_norm(reader.find("batch_norm"));
  s.lr = reader.number("lr", 0, {});
  s.momentum = reader.number("momentum", 0, s.momentum);
  s.weight_decay = reader.number("weight_decay", 0, s.weight_decay);
  s.warmup_epochs = reader.number("warmup_epochs", 0, s.warmup_epochs);
  s.schedule = read_schedule(reader.find("schedule"));
  s.seed = reader.count("seed", 0, s.seed);
  s.validation = reader.count("validation", 0, s.validation);
  s.augmentation = read_augmentation(reader.find("augment"));
  s.normalize = read_normalize(reader.find("normalize"));
  s.timeline = reader.count("timeline", 0, s.timeline);
  reader.finish();
  return s;
}

EvaluateSettings parse_evaluate_settings(const Json& with) {
  WithReader reader(with);
  EvaluateSettings s;
  s.checkpoint = reader.text("checkpoint");
  s.data = reader.text("data");
  s.scratch = reader.flag("scratch", s.scratch);
  s.batch = reader.count("batch", 1, s.batch);
  reader.finish();
  return s;
}

Normalization normalization_from(const PixelStatistics& statistics, const Dataset& dataset) {
  const size_t channels = dataset.shape.channels;
  for (const std::vector<double>* numbers : {&statistics.mean, &statistics.std}) {
    if (numbers->size() == 1 || numbers->size() == channels) continue;
    throw Error(Errc::InvalidInput, "with: 'normalize' has " + std::to_string(numbers->size()) +
                                        " numbers for " + std::to_string(channels) + " channels");
  }
  const double full = std::holds_alternative<Images<uint8_t>>(dataset.pixels) ? 255 : 1;
  Normalization normalization;
  for (size_t c = 0; c < channels; ++c) {
    const double std = per_channel(statistics.std, c);
    normalization.scale.push_back(float(1 / (std * full)));
    normalization.shift.push_back(float(-per_channel(statistics.mean, c) / std));
  }
  return normalization;
}

CheckpointPolicy parse_checkpoint_policy(const std::string& every, const std::string& keep) {
  CheckpointPolicy policy;
  if (!keep.empty()) policy.keep = parse_count(keep, "DLFLOW_CHECKPOINT_KEEP");
  if (every.empty()) return policy;
  const size_t space = every.find(' ');
  policy.every = parse_count(every.substr(0, space), "DLFLOW_CHECKPOINT_EVERY");
  const std::string unit = space == std::string::npos ? "" : every.substr(space + 1);
  if (unit == "epochs") {
    policy.unit = CheckpointPolicy::Unit::Epochs;
  } else if (unit == "steps") {
    policy.unit = CheckpointPolicy::Unit::Steps;
  } else if (unit == "seconds") {
    policy.unit = CheckpointPolicy::Unit::Seconds;
  } else {
    throw Error(Errc::InvalidInput, "$DLFLOW_CHECKPOINT_EVERY: '" + every +
                                        "' is not like '1 epochs', '200 steps' or '1800 seconds'");
  }
  return policy;
}

}  // namespace dlflow::runtime
