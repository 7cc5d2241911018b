#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/json.h"
#include "runtime/nn/model.h"
#include "runtime/settings/train_settings.h"

/// Follows a metric over epochs: which epoch is the best, and when training stops early.
namespace dlflow::runtime {

/// Whether smaller values of `metric` are better: true for losses and errors.
bool less_is_better(const std::string& metric);

/// The best value of a metric so far.
struct BestValue {
  std::optional<double> value;
  uint64_t epoch = 0;  ///< the epoch that it was measured after, from 1

  /// Stores `now`, the value after `epoch`, and returns true if it is better by more than
  /// `min_change`. The first wins a tie; NaN never wins.
  bool take(const std::string& metric, double now, uint64_t epoch, double min_change);

  bool operator==(const BestValue&) const = default;
};

/// Applies the rules of the settings to the epochs of a training. Saved in checkpoints, so that a
/// resumed run ends at the same epoch as an uninterrupted one.
class EpochRules {
 public:
  /// Throws Error{InvalidInput} naming the key if the settings name a metric that `model` does not
  /// have, or if no samples are held out to measure it with.
  EpochRules(const TrainSettings& settings, const Model& model, size_t num_validation);

  /// Records that epoch `epoch`, from 1, ended at step `step` of the training with `metrics`. True
  /// if it is the best by `keep_best`.
  bool end_epoch(uint64_t epoch, uint64_t step, const std::map<std::string, double>& metrics);

  /// A message that names a metric of the rules that is missing in an epoch's `metrics`, and the
  /// consequence; empty if all are there.
  std::string unmeasured(const std::map<std::string, double>& metrics) const;

  /// True if epoch `epoch` had the value to `reach`, or was the last of `patience` epochs without
  /// improvement; never before there is a value.
  bool stops_after(uint64_t epoch) const;

  /// The step and the metrics of the best epoch by `keep_best`; nothing before the first.
  std::optional<uint64_t> best_step() const { return best_step_; }
  uint64_t best_epoch() const { return best_.epoch; }
  const std::map<std::string, double>& best_metrics() const { return best_metrics_; }

  /// The epoch that had the value to `reach`, if any yet.
  std::optional<uint64_t> reached() const { return reached_; }

  /// The reason to stop, for users: "loss was best after epoch 4, and 3 more epochs did not improve
  /// it".
  std::string reason() const;

  /// "accuracy did not reach 0.9; 0.87 after epoch 4 was the best"; empty if the goal was reached,
  /// or if there is none.
  std::string missed() const;

  Json state() const;
  void restore(const Json& state);

 private:
  std::string keep_best_;
  std::optional<EarlyStop> stop_early_;
  BestValue best_, stop_;
  std::optional<uint64_t> reached_;
  std::optional<uint64_t> best_step_;
  std::map<std::string, double> best_metrics_;
};

}  // namespace dlflow::runtime
