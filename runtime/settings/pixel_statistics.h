#pragma once

#include <optional>
#include <vector>

#include "base/json.h"
#include "runtime/data/dataset.h"
#include "runtime/data/normalization.h"

namespace dlflow::runtime {

/// The pixels' mean and standard deviation, of bytes divided by 255 or of floats as they are; one
/// number for all channels or one for each.
struct PixelStatistics {
  std::vector<double> mean, std;
  bool operator==(const PixelStatistics&) const = default;
};

/// The key `normalize`.
std::optional<PixelStatistics> read_normalize(const Json* normalize);

/// The scale and shift that give `dataset`'s pixels mean 0 and variance 1, by `statistics`.
/// Throws Error{InvalidInput} if they are of another number of channels.
Normalization normalization_from(const PixelStatistics& statistics, const Dataset& dataset);

}  // namespace dlflow::runtime
