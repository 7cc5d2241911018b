#pragma once

#include <cstdint>

namespace dlflow::cuda {

/// The shape of (batch, channels, pixels) floats in plain order.
struct Maps {
  int64_t batch = 0, channels = 0, pixels = 0;
};

}  // namespace dlflow::cuda
