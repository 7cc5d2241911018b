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
#include "runtime/settings/pixel_statistics.h"
#include "runtime/settings/schedule.h"
#include "runtime/settings/update.h"
#include "runtime/settings/with_reader.h"

/// The settings of a training run, as values.
namespace dlflow::runtime {

/// The device to train on.
enum class Device { Cpu, Cuda };

/// The settings that decide the bits of the result.
struct Precision {
  /// Gradients are added in an order that gives the same weights, bit for bit, for any number of
  /// ranks, with one build of dlflow on one instruction set; else only for the same number of
  /// ranks.
  bool exact = true;

  /// Number of parts of a global batch in exact mode; ranks beyond that have nothing to do.
  size_t leaves = 0;

  /// Precision of products and of values between layers, if the processor is faster with it.
  Compute compute = Compute::Float32;

  bool operator==(const Precision&) const = default;
};

/// The way of gradients between ranks.
struct GradientTravel {
  DataType wire = DataType::Float32;  ///< between nodes
  bool priority = true;               ///< the first layers overtake the others
  std::optional<Compression> compression = std::nullopt;

  bool operator==(const GradientTravel&) const = default;
};

/// When training ends before its last epoch.
struct EarlyStop {
  std::string metric;
  std::optional<uint64_t> patience = std::nullopt;  ///< epochs in a row that are not better
  double min_change = 0;  ///< what is not better by more does not count as better
  std::optional<double> reach = std::nullopt;  ///< a value as good as this ends the training

  bool operator==(const EarlyStop&) const = default;
};

struct TrainSettings {
  std::string model;                     ///< path of the model's YAML
  std::string data;                      ///< folder of the training data
  bool scratch = false;                  ///< each node reads it from a copy on its own disk
  std::optional<size_t> loader_threads;  ///< of each rank; else as is usual, see loader_threads()
  Device device = Device::Cpu;
  uint64_t epochs = 1;
  size_t batch = 128;  ///< samples per step, over all ranks; unless:
  std::optional<size_t> batch_per_rank;
  LastBatch last_batch = LastBatch::Keep;
  uint64_t activation_bytes = UINT64_MAX;  ///< most that a network takes (Network::value_bytes)
  Precision precision;
  bool joint_batch_norm = false;  ///< over the samples of a step; else over those of a leaf
  GradientTravel gradients;
  CooperationOptions cooperation;
  double lr = 0.1;
  UpdateSettings update;
  std::string start_from;           ///< file or checkpoint with the first weights; empty: none
  std::vector<std::string> freeze;  ///< patterns of layers that stay as they are
  std::string keep_best;  ///< metric by which the best epoch is the result; empty: the last is
  std::optional<EarlyStop> stop_early;
  double label_smoothing = 0;
  std::vector<float> class_weights;  ///< of the loss, one for each class; empty: all are 1
  double warmup_epochs = 0;
  Schedule::Course schedule = Schedule::Course::Cosine;
  CourseOptions course;
  uint64_t seed = 0;
  std::optional<size_t> validation;  ///< samples held out of the training data; else by its size
  std::optional<std::vector<float>> class_shares;  ///< as LoaderOptions::class_shares
  Augmentation augmentation;
  std::optional<PixelStatistics> normalize;  ///< else measured
  uint64_t timeline = 0;                     ///< steps whose timeline is written

  bool operator==(const TrainSettings&) const = default;
};

/// Samples per step, over all ranks that compute and all batches that are accumulated.
size_t global_batch(const TrainSettings& settings, int num_ranks);

/// The settings by which base/leaves.h divides a step.
LeafSettings leaf_settings(const TrainSettings& settings, int num_ranks);

/// Number of leaves of a step; in fast mode one per rank.
size_t num_leaves(const TrainSettings& settings, int num_ranks);

/// The learning rate over the run, for steps of `global_batch` samples.
Schedule schedule_of(const TrainSettings& settings, size_t global_batch, uint64_t steps_per_epoch);

/// In a few words, for people and for who compares: "exact, leaves: 8", "fast, ranks: 2, wire:
/// fp16", "local_sgd every 8, ranks: 4". Equal words, equal bits (but for `batch`).
std::string how_gradients_are_added(const TrainSettings& settings, int num_ranks);

/// Reads the `with:` of a train step (docs/user/format/train.md has the keys).
/// Throws Error{InvalidInput} naming the key.
TrainSettings parse_train_settings(const Json& with);

/// Samples to hold out of `num_samples`: as the settings say, else a tenth, at most 5000.
size_t validation_samples(const TrainSettings& settings, size_t num_samples);

}  // namespace dlflow::runtime
