#pragma once

#include <functional>
#include <span>
#include <vector>

#include "runtime/cooperation/cooperation.h"

namespace dlflow::test {

/// A learner without a network: `gradient_of` gives the gradient in each step, and the update is
/// plain momentum, v = 0.5 v + g, w = w - rate v. The first three quarters of the weights can be
/// trained; the rest are statistics, which an update leaves alone.
class FakeLearner : public runtime::Stepper, public runtime::OwnUpdates {
 public:
  using GradientOf = std::function<std::vector<float>(std::span<const float> weights)>;

  FakeLearner(size_t num_weights, float first, bool updates, GradientOf gradient_of)
      : weights_(num_weights, first),
        velocity_(num_weights * 3 / 4),
        gradient_(num_weights),
        makes_updates_(updates),
        gradient_of_(std::move(gradient_of)) {}

  operator runtime::Learner() { return {*this, *this}; }

  runtime::OwnStep step() override {
    gradient_ = gradient_of_(weights_);
    ++steps_;
    if (makes_updates_) update(0, gradient_, rate);
    return {report, rate};
  }

  runtime::StepReport wishes() override { return wish; }

  std::span<const float> gradient() override { return gradient_; }

  std::vector<std::span<float>> state() override { return {weights_, velocity_}; }

  size_t num_trained() override { return velocity_.size(); }

  void update(size_t first, std::span<const float> gradient, double by) override {
    for (size_t i = 0; i < gradient.size() && first + i < velocity_.size(); ++i) {
      velocity_[first + i] = 0.5f * velocity_[first + i] + gradient[i];
      weights_[first + i] -= float(by) * velocity_[first + i];
    }
    ++updates_;
  }

  uint64_t updates() override { return updates_; }
  void set_updates(uint64_t updates) override { updates_ = updates; }

  const std::vector<float>& weights() const { return weights_; }
  const std::vector<float>& velocity() const { return velocity_; }
  uint64_t steps() const { return steps_; }

  float rate = 0.25f;
  runtime::StepReport report;  ///< of every step
  runtime::StepReport wish;

 private:
  std::vector<float> weights_, velocity_, gradient_;
  bool makes_updates_;
  GradientOf gradient_of_;
  uint64_t steps_ = 0, updates_ = 0;
};

}  // namespace dlflow::test
