#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dlflow::runtime {

/// How a token is chosen by its score.
struct Sampling {
  double temperature = 1;  ///< divisor of the scores; 0: the highest score, always
  size_t top_k = 0;        ///< only that many with the highest scores; 0: all
  double top_p = 1;        ///< only the most probable that have this share together

  bool operator==(const Sampling&) const = default;
};

/// The token that `uniform`, a random number in [0, 1), picks: with probability softmax(scores /
/// temperature) among those that `sampling` leaves. Of equal scores the first token is the higher.
uint32_t choose_token(std::span<const float> scores, const Sampling& sampling, double uniform);

}  // namespace dlflow::runtime
