#include <string>

#include "base/error.h"
#include "runtime/settings/parts.h"

namespace dlflow::runtime {
namespace {

std::vector<double> read_numbers(const Json& json, const std::string& key) {
  std::vector<double> numbers;
  const Json list = json.is_array() ? json : Json::array({json});
  for (const Json& value : list) {
    if (!value.is_number()) WithReader::fail(key, "a number or one per channel");
    numbers.push_back(value);
  }
  if (numbers.empty()) WithReader::fail(key, "a number or one per channel");
  return numbers;
}

double per_channel(const std::vector<double>& numbers, size_t channel) {
  return numbers.size() == 1 ? numbers[0] : numbers[channel];
}

}  // namespace

std::optional<PixelStatistics> read_normalize(const Json* normalize) {
  if (normalize == nullptr) return {};
  WithReader reader(*normalize, "normalize");
  const Json* const mean = reader.find("mean");
  const Json* const std = reader.find("std");
  reader.finish();
  if (mean == nullptr || std == nullptr) WithReader::fail("normalize", "{mean: …, std: …}");
  PixelStatistics statistics{read_numbers(*mean, "normalize.mean"),
                             read_numbers(*std, "normalize.std")};
  for (const double divisor : statistics.std) {
    if (!(divisor > 0)) WithReader::fail("normalize.std", "above 0");
  }
  return statistics;
}

Normalization normalization_from(const PixelStatistics& statistics, const Dataset& dataset) {
  const size_t channels = dataset.shape.channels;
  for (const std::vector<double>* numbers : {&statistics.mean, &statistics.std}) {
    if (numbers->size() == 1 || numbers->size() == channels) continue;
    throw Error(Errc::InvalidInput, "with: 'normalize' has " + std::to_string(numbers->size()) +
                                        " numbers for " + std::to_string(channels) + " channels");
  }
  const double full = std::holds_alternative<PixelRows<float>>(dataset.pixels) ? 1 : 255;
  Normalization normalization;
  for (size_t c = 0; c < channels; ++c) {
    const double std = per_channel(statistics.std, c);
    normalization.scale.push_back(float(1 / (std * full)));
    normalization.shift.push_back(float(-per_channel(statistics.mean, c) / std));
  }
  return normalization;
}

}  // namespace dlflow::runtime
