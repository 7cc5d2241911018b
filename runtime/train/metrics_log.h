#pragma once

#include <chrono>
#include <optional>

#include "base/file.h"
#include "base/json.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/mean_loss.h"
#include "runtime/train/rate.h"
#include "runtime/train/step_metrics.h"

namespace dlflow::runtime {

/// Writes $DLFLOW_METRICS as training goes: about two lines a second, and two per epoch. For the
/// one rank that reports.
class MetricsLog {
 public:
  struct Run {
    uint64_t epochs = 0;
    uint64_t steps_per_epoch = 0;
    uint64_t first_step = 0;  ///< more than 0 after a resume: they cost no time now
    MeanLoss loss = {};       ///< of the first epoch's samples before that
    Rate rate = {};
  };

  MetricsLog(const std::filesystem::path& file, Run run);

  /// A step is done.
  void step(const StepMetrics& metrics);

  /// Time from now to resume() is not training.
  void pause();
  void resume();

  /// Epoch `epoch` (from 0) is done. Without a validation set, there is no evaluation. The gradient
  /// noise scale, if it was measured, is in every line until the next.
  void epoch(uint64_t epoch, const std::optional<Evaluation>& evaluation,
             std::optional<double> noise_scale);

  /// As the last epoch() was told.
  std::optional<double> noise_scale() const { return noise_scale_; }

  /// Of the steps since the last epoch().
  const MeanLoss& train_loss() const { return epoch_loss_; }

  /// The mean time that ranks waited for data, over all steps.
  double data_wait() const { return wait_s_; }
  /// The same for gradients of other ranks; nothing where it is not measured.
  std::optional<double> communication_wait() const { return exchange_s_; }

  /// Over all steps, without what lay between pause() and resume().
  double samples_per_second() const;

 private:
  using Clock = std::chrono::steady_clock;

  std::chrono::duration<double> training_time() const;
  /// The waits in this epoch; a message, too, if that for data is much of its time.
  void add_waits(Json& line) const;
  void write(uint64_t steps_done, Json line);

  AppendFile file_;
  Run run_;
  Clock::time_point started_ = Clock::now();  // of training, moved by pauses
  std::optional<Clock::time_point> paused_;
  Clock::time_point last_line_{};
  double samples_ = 0;  // of texts, as many of mean length as have their tokens
  double samples_at_line_ = 0;
  std::chrono::duration<double> time_at_line_{0};
  MeanLoss recent_loss_, epoch_loss_;
  std::optional<double> noise_scale_;
  double wait_s_ = 0, wait_before_epoch_s_ = 0;
  std::optional<double> exchange_s_;
  double exchange_before_epoch_s_ = 0;
  double learning_rate_ = 0;
  std::optional<double> gradient_norm_;
  std::chrono::duration<double> time_before_epoch_{0};
};

}  // namespace dlflow::runtime
