#include "runtime/compress/momentum_correction.h"

#include <cmath>

namespace dlflow::runtime {

void correct_momentum(float momentum, std::span<float> velocity, std::span<float> gradient) {
  for (size_t i = 0; i < gradient.size(); ++i) {
    velocity[i] = momentum * velocity[i] + gradient[i];
    gradient[i] = velocity[i];
  }
}

void clip_norm(double most, std::span<float> gradient) {
  double squares = 0;
  for (const float value : gradient) squares += double(value) * double(value);
  const double norm = std::sqrt(squares);
  if (!std::isfinite(norm) || norm <= most) return;
  const auto factor = float(most / norm);
  for (float& value : gradient) value *= factor;
}

}  // namespace dlflow::runtime
