#include "runtime/train/metrics_log.h"

#include <algorithm>
#include <cmath>

namespace dlflow::runtime {
namespace {

constexpr std::chrono::milliseconds kInterval(500);
constexpr double kMuchWaiting = 0.1;  // share of an epoch's time

/// Rounds seconds to milliseconds.
double to_milliseconds(double seconds) { return std::round(seconds * 1000) / 1000; }

}  // namespace

MetricsLog::MetricsLog(const std::filesystem::path& file, Run run)
    : file_(file), run_(run), epoch_loss_(run.loss) {}

void MetricsLog::step(const StepMetrics& metrics) {
  wait_s_ += metrics.data_wait_s;
  if (const auto& waited = metrics.communication_wait_s) {
    exchange_s_ = exchange_s_.value_or(0) + *waited;
  }
  learning_rate_ = metrics.learning_rate;
  gradient_norm_ = metrics.gradient_norm;
  samples_ +=
      metrics.tokens > 0 ? double(metrics.tokens) / run_.rate.per_sample : double(metrics.samples);
  if (metrics.loss) {
    const size_t weight = metrics.weight > 0 ? metrics.weight : metrics.samples;
    recent_loss_.add(*metrics.loss, weight);
    epoch_loss_.add(*metrics.loss, weight);
  }
  const auto now = Clock::now();
  const bool ends_epoch = (metrics.step + 1) % run_.steps_per_epoch == 0;
  if (now - last_line_ < kInterval && !ends_epoch) return;
  const auto time = training_time();
  const double recent_time = (time - time_at_line_).count();
  Json line = {{"epoch", metrics.step / run_.steps_per_epoch + 1}};
  if (recent_loss_.samples > 0) line["loss"] = recent_loss_.mean();
  if (recent_time > 0) {
    const double samples_per_s = (samples_ - samples_at_line_) / recent_time;
    line[run_.rate.metric] = std::round(run_.rate.of(samples_per_s));
  }
  add_waits(line);
  line["learning_rate"] = learning_rate_;
  if (gradient_norm_) line["gradient_norm"] = *gradient_norm_;
  write(metrics.step + 1, std::move(line));
  last_line_ = now;
  time_at_line_ = time;
  samples_at_line_ = samples_;
  recent_loss_ = {};
}

void MetricsLog::pause() { paused_ = Clock::now(); }

void MetricsLog::resume() {
  started_ += Clock::now() - *paused_;
  paused_.reset();
}

void MetricsLog::epoch(uint64_t epoch, const std::optional<Evaluation>& evaluation,
                       std::optional<double> noise_scale) {
  noise_scale_ = noise_scale;
  if (noise_scale_) noise_scale_ = std::round(*noise_scale_);
  Json line = {{"epoch", epoch + 1},
               {run_.rate.metric, std::round(run_.rate.of(samples_per_second()))}};
  if (evaluation) {
    for (const auto& [name, value] : evaluation->metrics()) line[name] = value;
  } else {
    line["loss"] = epoch_loss_.mean();
  }
  line["epoch_s"] = to_milliseconds((training_time() - time_before_epoch_).count());
  add_waits(line);
  write((epoch + 1) * run_.steps_per_epoch, std::move(line));
  wait_before_epoch_s_ = wait_s_;
  exchange_before_epoch_s_ = exchange_s_.value_or(0);
  time_before_epoch_ = training_time();
  epoch_loss_ = {};
}

double MetricsLog::samples_per_second() const {
  const double seconds = training_time().count();
  return seconds > 0 ? samples_ / seconds : 0;
}

std::chrono::duration<double> MetricsLog::training_time() const {
  return paused_.value_or(Clock::now()) - started_;
}

void MetricsLog::add_waits(Json& line) const {
  const double waited = wait_s_ - wait_before_epoch_s_;
  const double time = (training_time() - time_before_epoch_).count();
  line["data_wait_s"] = to_milliseconds(waited);
  if (exchange_s_) {
    line["communication_wait_s"] = to_milliseconds(*exchange_s_ - exchange_before_epoch_s_);
  }
  if (time <= 0 || waited < kMuchWaiting * time) return;
  const int percent = int(std::min(100.0, std::round(100 * waited / time)));
  line["message"] = "waited " + std::to_string(percent) + " % for data";
}

void MetricsLog::write(uint64_t steps_done, Json line) {
  const uint64_t steps = run_.epochs * run_.steps_per_epoch;
  line["at"] = to_milliseconds(
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
  line["epochs"] = run_.epochs;
  line["step"] = steps_done;
  line["steps"] = steps;
  line["progress"] = double(steps_done) / double(steps);
  if (noise_scale_) line["noise_scale"] = *noise_scale_;
  if (steps_done > run_.first_step) {
    const double per_step = training_time().count() / double(steps_done - run_.first_step);
    line["eta_s"] = std::round(per_step * double(steps - steps_done));
  }
  file_.append(line.dump());
}

}  // namespace dlflow::runtime
