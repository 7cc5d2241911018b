#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "engine/report/style.h"

namespace dlflow {

/// `values` as a row of bars, at most `width` columns: each column is the mean of its share of the
/// values, from the least (the lowest bar) to the most. Empty without values.
std::string sparkline(std::span<const double> values, size_t width, const Style& style);

}  // namespace dlflow
