#pragma once

#include <chrono>
#include <optional>

#include "base/file.h"
#include "base/json.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/rate.h"
#include "runtime/train/training_state.h"

namespace dlflow::runtime {

/// The numbers of a completed step. Waits are means over the ranks.
struct StepMetrics {
  uint64_t step = 0;           ///< in the whole run, from 0
  size_t samples = 0;          ///< over all ranks
  std::optional<double> loss;  ///< mean over the samples with a known loss
  size_t weight = 0;           ///< weight of `loss` in the epoch's mean; 0: `samples`
  size_t tokens = 0;           ///< for texts of different lengths: over all ranks
  double data_wait_s = 0;
  /// Idle time spent waiting for gradients of other ranks in the previous step. Nothing if it is
  /// not measured.
  std::optional<double> communication_wait_s = {};
  double learning_rate = 0;
  std::optional<double> gradient_norm = {};  ///< Euclidean, of the last measured step
};

/// Writes $DLFLOW_METRICS during training: about two lines a second, and two per epoch. Only the
/// reporting rank has one.
class MetricsLog {
 public:
  struct Run {
    uint64_t epochs = 0;
    uint64_t steps_per_epoch = 0;
    uint64_t first_step = 0;  ///< more than 0 after a resume
    MeanLoss loss = {};       ///< over the first epoch's samples before first_step
    Rate rate = {};
  };

  MetricsLog(const std::filesystem::path& file, Run run);

  /// A step is done.
  void step(const StepMetrics& metrics);

  /// The time from pause() to resume() does not count as training.
  void pause();
  void resume();

  /// Epoch `epoch` (from 0) is done. Without a validation set, there is no evaluation. A measured
  /// gradient noise scale is in every line until the next epoch().
  void epoch(uint64_t epoch, const std::optional<Evaluation>& evaluation,
             std::optional<double> noise_scale);

  /// The value passed to the last epoch().
  std::optional<double> noise_scale() const { return noise_scale_; }

  /// The loss of the steps since the last epoch().
  const MeanLoss& train_loss() const { return epoch_loss_; }

  /// The time that ranks waited for data, averaged over ranks and summed over all steps.
  double data_wait() const { return wait_s_; }
  /// The same for gradients of other ranks; nothing if it is not measured.
  std::optional<double> communication_wait() const { return exchange_s_; }

  /// Over all steps, without the time between pause() and resume().
  double samples_per_second() const;

 private:
  using Clock = std::chrono::steady_clock;

  std::chrono::duration<double> training_time() const;
  /// Adds the waits of this epoch, and a message if the wait for data is a large part of its time.
  void add_waits(Json& line) const;
  void write(uint64_t steps_done, Json line);

  AppendFile file_;
  Run run_;
  Clock::time_point started_ = Clock::now();  // when training began, shifted by pauses
  std::optional<Clock::time_point> paused_;
  Clock::time_point last_line_{};
  double samples_ = 0;  // a text counts as its share of the mean length in tokens
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
