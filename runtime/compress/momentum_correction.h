#pragma once

#include <span>

namespace dlflow::runtime {

/// The part that Deep Gradient Compression adds to top-k: each rank applies momentum itself and
/// sends the largest accumulated velocities, not gradients, so that late numbers have the weight
/// that they would have had. Sending resets a velocity to 0 (compress()), so that a stale direction
/// does not continue: momentum factor masking.
/// Source: Lin, Han, Mao, Wang and Dally, "Deep gradient compression", ICLR 2018.

/// Sets velocity = momentum * velocity + gradient, and `gradient` to the result, for each number.
void correct_momentum(float momentum, std::span<float> velocity, std::span<float> gradient);

/// Local gradient clipping: scales `gradient` down to the norm `most` if it exceeds that.
/// Non-finite numbers stay non-finite.
void clip_norm(double most, std::span<float> gradient);

}  // namespace dlflow::runtime
