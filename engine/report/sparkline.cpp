#include "engine/report/sparkline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

namespace dlflow {
namespace {

constexpr std::array kBars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array kAscii = {"_", ".", ",", "-", "~", "=", "+", "#"};

std::vector<double> means(std::span<const double> values, size_t columns) {
  std::vector<double> shares;
  for (size_t i = 0; i < columns; ++i) {
    const auto share =
        values.subspan(i * values.size() / columns,
                       (i + 1) * values.size() / columns - i * values.size() / columns);
    shares.push_back(std::accumulate(share.begin(), share.end(), 0.0) / double(share.size()));
  }
  return shares;
}

}  // namespace

std::string sparkline(std::span<const double> values, size_t width, const Style& style) {
  if (values.empty() || width == 0) return "";
  const std::vector<double> shares = means(values, std::min(width, values.size()));
  const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
  const double range = *most - *least;
  std::string line;
  for (const double value : shares) {
    const double height = range > 0 ? (value - *least) / range : 0;
    const auto bar = size_t(std::clamp(std::floor(height * 8), 0.0, 7.0));
    line += style.utf8 ? kBars[bar] : kAscii[bar];
  }
  return line;
}

}  // namespace dlflow
