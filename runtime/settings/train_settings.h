#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/leaves.h"
#include "runtime/comm/values.h"
#include "runtime/compress/compression.h"
#include "runtime/cooperation/options.h"
#include "runtime/data/augment.h"
#include "runtime/data/shard.h"
#include "runtime/nn/arithmetic.h"
#include "runtime/optim/schedule.h"
#include "runtime/settings/update.h"
#include "runtime/settings/with_reader.h"

/// The settings of a training run, as values.
namespace dlflow::runtime {

/// The device to train on.
enum class Device { Cpu, Cuda };

/// The settings that determine the bits of the result.
struct Precision {
  /// If set, gradients are added in an order that gives bitwise the same weights for any number of
  /// ranks, with one build of dlflow on one instruction set; else only for the same number of
  /// ranks.
  bool exact = true;

  /// Number of parts of a global batch in exact mode; additional ranks are idle.
  size_t leaves = 0;

  /// Precision of products and of values between layers, if it is faster on the processor.
  Compute compute = Compute::Float32;

  bool operator==(const Precision&) const = default;
};

/// How gradients travel between ranks.
struct GradientTravel {
  DataType wire = DataType::Float32;  ///< between nodes
  bool priority = true;               ///< gradients of the first layers overtake others
  std::optional<Compression> compression = std::nullopt;

  bool operator==(const GradientTravel&) const = default;
};

/// When training ends before its last epoch.
struct EarlyStop {
  std::string metric;
  std::optional<uint64_t> patience = std::nullopt;  ///< consecutive epochs without improvement
  double min_change = 0;                            ///< an improvement must be larger than this
  std::optional<double> reach = std::nullopt;       ///< a value as good as this ends the training

  bool operator==(const EarlyStop&) const = default;
};

/// The options of a learning rate course.
struct CourseOptions {
  double min_lr = 0;
  double power = 1;
  double factor = 0.1;
  std::optional<std::vector<uint64_t>> steps;  ///< epochs; default: after half and three quarters

  bool operator==(const CourseOptions&) const = default;
};

/// The mean and standard deviation of pixels, of bytes divided by 255 or of floats as they are; one
/// number for all channels or one per channel.
struct PixelStatistics {
  std::vector<double> mean, std;
  bool operator==(const PixelStatistics&) const = default;
};

struct TrainSettings {
  std::string model;                     ///< path of the model's YAML
  std::string data;                      ///< folder of the training data
  bool scratch = false;                  ///< each node reads the data from a copy on its own disk
  std::optional<size_t> loader_threads;  ///< of each rank; default: see loader_threads()
  Device device = Device::Cpu;
  uint64_t epochs = 1;
  size_t batch = 128;  ///< samples per step, over all ranks; batch_per_rank overrides it
  std::optional<size_t> batch_per_rank;
  LastBatch last_batch = LastBatch::Keep;
  uint64_t activation_bytes = UINT64_MAX;  ///< limit of Network::value_bytes()
  Precision precision;
  bool joint_batch_norm = false;  ///< over the samples of a step instead of a leaf
  GradientTravel gradients;
  CooperationOptions cooperation;
  double lr = 0.1;
  UpdateSettings update;
  std::string start_from;           ///< file or checkpoint with the initial weights; empty: none
  std::vector<std::string> freeze;  ///< patterns of layers that are not trained
  std::string keep_best;  ///< metric that selects the best epoch as result; empty: the last epoch
  std::optional<EarlyStop> stop_early;
  double label_smoothing = 0;
  std::vector<float> class_weights;  ///< of the loss, one per class; empty: all are 1
  double warmup_epochs = 0;
  Schedule::Course schedule = Schedule::Course::Cosine;
  CourseOptions course;
  uint64_t seed = 0;
  std::optional<size_t> validation;  ///< held-out training samples; see validation_samples()
  std::optional<std::vector<float>> class_shares;  ///< as LoaderOptions::class_shares
  Augmentation augmentation;
  std::optional<PixelStatistics> normalize;  ///< default: measured
  uint64_t timeline = 0;                     ///< number of steps with a timeline

  bool operator==(const TrainSettings&) const = default;
};

/// Samples per step, over all computing ranks and all accumulated batches.
size_t global_batch(const TrainSettings& settings, int num_ranks);

/// The settings that base/leaves.h needs to divide a step.
LeafSettings leaf_settings(const TrainSettings& settings, int num_ranks);

/// Number of leaves of a step; in fast mode one per rank.
size_t num_leaves(const TrainSettings& settings, int num_ranks);

/// The learning rate over the run, for steps of `global_batch` samples.
Schedule schedule_of(const TrainSettings& settings, size_t global_batch, uint64_t steps_per_epoch);

/// A short description for people and for comparisons: "exact, leaves: 8", "fast, ranks: 2, wire:
/// fp16", "local_sgd every 8, ranks: 4". Equal descriptions mean equal bits (except for `batch`).
std::string how_gradients_are_added(const TrainSettings& settings, int num_ranks);

/// Reads the `with:` of a train step (docs/user/format/train.md has the keys).
/// Throws Error{InvalidInput} naming the key.
TrainSettings parse_train_settings(const Json& with);

/// Number of samples to hold out of `num_samples`: as set, else a tenth, at most 5000.
size_t validation_samples(const TrainSettings& settings, size_t num_samples);

}  // namespace dlflow::runtime
