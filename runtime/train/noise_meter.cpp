#include "runtime/train/noise_meter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/optim/blocks.h"

namespace dlflow::runtime {

void NoiseMeter::begin_step(uint64_t step, size_t samples) {
  const bool possible = setup_.num_leaves > 1 && samples == setup_.batch;
  measured_ = std::exchange(measures_, possible && step % kEvery == 0);
}

void NoiseMeter::add_gradient(size_t leaf, std::span<const float> gradient) {
  if (measures_) leaves_[leaf] += sum_of_squares(gradient);
}

void NoiseMeter::add_sums(size_t first, std::span<const float> sums) {
  if (!measures_ || !setup_.counts_sums || first >= setup_.trainable) return;
  sum_ += sum_of_squares(sums.first(std::min(sums.size(), setup_.trainable - first)));
}

void NoiseMeter::write(size_t leaf, std::span<float, kReportFloats> report) {
  report[0] = float(std::exchange(leaves_[leaf], 0));
  report[1] = leaf == 0 ? float(std::exchange(sum_, 0)) : 0;
}

void NoiseMeter::read(std::span<const float, kReportFloats> sums) {
  if (!measured_) return;
  // A leaf's gradient is divided by the samples of the step, not of the leaf.
  of_leaves_ += double(sums[0]) * double(setup_.num_leaves);
  of_sums_ += double(sums[1]);
  gradient_norm_ = std::sqrt(double(sums[1]));
  ++steps_;
}

std::optional<double> NoiseMeter::take() {
  const double steps = double(std::exchange(steps_, 0));
  const double small = std::exchange(of_leaves_, 0) / steps;  // |g|^2 over b samples
  const double large = std::exchange(of_sums_, 0) / steps;    // over B
  const double B = double(setup_.batch), b = B / double(setup_.num_leaves);
  const double signal = (B * large - b * small) / (B - b);
  const double noise = (small - large) / (1 / b - 1 / B);
  if (!(signal > 0 && noise > 0)) return {};
  return noise / signal;
}

}  // namespace dlflow::runtime
