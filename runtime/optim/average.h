#pragma once

#include <span>

namespace dlflow::runtime {

/// Moves the running mean `averaged` towards `values` by `share` of the difference:
/// averaged = averaged + share * (values - averaged). In PyTorch: torch.optim.swa_utils.
void move_average(std::span<const float> values, float share, std::span<float> averaged);

}  // namespace dlflow::runtime
