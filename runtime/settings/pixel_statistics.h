#pragma once

#include <optional>
#include <vector>

#include "base/json.h"
#include "runtime/data/dataset.h"
#include "runtime/data/normalization.h"

namespace dlflow::runtime {

/// The mean and standard deviation of pixels, of bytes divided by 255 or of floats as they are; one
/// number for all channels or one per channel.
struct PixelStatistics {
  std::vector<double> mean, std;
  bool operator==(const PixelStatistics&) const = default;
};

/// Reads the key `normalize`.
std::optional<PixelStatistics> read_normalize(const Json* normalize);

/// The scale and shift that give `dataset`'s pixels mean 0 and variance 1, by `statistics`. Throws
/// Error{InvalidInput} if the number of channels differs.
Normalization normalization_from(const PixelStatistics& statistics, const Dataset& dataset);

}  // namespace dlflow::runtime
