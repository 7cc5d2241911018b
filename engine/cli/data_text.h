#pragma once

#include <cstdint>
#include <string>

#include "runtime/data/dataset.h"

namespace dlflow {

/// "60,000 samples of 1 x 28 x 28 bytes in 10 classes", "506 samples of 13 floats with 1 target"
std::string describe_samples(uint64_t samples, const runtime::ImageShape& shape, bool floats,
                             uint32_t classes, uint32_t targets);

}  // namespace dlflow
