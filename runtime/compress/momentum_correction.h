#pragma once

#include <span>

namespace dlflow::runtime {

/// The part that Deep Gradient Compression adds to top-k: each rank has the momentum, and sends the
/// largest of the velocities that add up, not of the gradients; so that what is sent late has the
/// weight that it would have had. The velocity of what is sent becomes 0 (compress()), lest a stale
/// direction goes on: momentum factor masking.
/// Source: Lin, Han, Mao, Wang and Dally, "Deep gradient compression", ICLR 2018.

/// velocity = momentum * velocity + gradient, for each number; and so becomes `gradient`.
void correct_momentum(float momentum, std::span<float> velocity, std::span<float> gradient);

/// Local gradient clipping: scales `gradient` down to the norm `most`, if it has more. What is not
/// finite stays so.
void clip_norm(double most, std::span<float> gradient);

}  // namespace dlflow::runtime
