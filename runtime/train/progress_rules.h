#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/json.h"
#include "runtime/nn/model.h"
#include "runtime/settings/train_settings.h"

/// The course of a metric over epochs: which epoch is the best, and when training stops early.
namespace dlflow::runtime {

/// Whether less of `metric` is better: of losses and errors.
bool less_is_better(const std::string& metric);

/// The best value of a metric so far.
struct BestValue {
  std::optional<double> value;
  uint64_t epoch = 0;  ///< after which it was measured, from 1

  /// Takes `now`, the value after `epoch`. True, and it is the best from now on, if it is better by
  /// more than `min_change`; of equal values the first stays. A value that is no number never is.
  bool take(const std::string& metric, double now, uint64_t epoch, double min_change);

  bool operator==(const BestValue&) const = default;
};

/// The epochs of a training, by the rules of its settings. It goes into checkpoints, so that a run
/// that goes on ends where one that was not interrupted does.
class EpochRules {
 public:
  /// Throws Error{InvalidInput} naming the key if `model` is not measured by a metric that the
  /// settings name, or if no samples are held out to measure it with.
  EpochRules(const TrainSettings& settings, const Model& model, size_t num_validation);

  /// Epoch `epoch`, from 1, ends at step `step` of the training and measured `metrics`. True if it
  /// is the best of `keep_best`.
  bool end_epoch(uint64_t epoch, uint64_t step, const std::map<std::string, double>& metrics);

  /// Which metric of the rules is not among those of an epoch, and what follows from it; empty if
  /// all are there.
  std::string unmeasured(const std::map<std::string, double>& metrics) const;

  /// Epoch `epoch` had the value to `reach`, or `patience` epochs went by without a better one, the
  /// last of them `epoch`; never before there is a value.
  bool stops_after(uint64_t epoch) const;

  /// The step of the best epoch of `keep_best`, and what it measured; nothing before the first.
  std::optional<uint64_t> best_step() const { return best_step_; }
  uint64_t best_epoch() const { return best_.epoch; }
  const std::map<std::string, double>& best_metrics() const { return best_metrics_; }

  /// The epoch that had the value to `reach`; nothing before.
  std::optional<uint64_t> reached() const { return reached_; }

  /// "loss was best after epoch 4, and 3 more did not improve it", for people.
  std::string reason() const;

  /// "accuracy did not reach 0.9; 0.87 after epoch 4 was the best"; empty if nothing was to be
  /// reached, or was.
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
