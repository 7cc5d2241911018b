#include "engine/report/columns.h"

#include <algorithm>
#include <numeric>

#include "base/text.h"

namespace dlflow {
namespace {

constexpr size_t kGap = 2;

std::vector<size_t> widths_of(std::span<const std::vector<std::string>> rows) {
  std::vector<size_t> widths(rows.empty() ? 0 : rows.front().size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  return widths;
}

}  // namespace

size_t columns_width(std::span<const std::vector<std::string>> rows) {
  const std::vector<size_t> widths = widths_of(rows);
  if (widths.empty()) return 0;
  return std::accumulate(widths.begin(), widths.end(), kGap * (widths.size() - 1));
}

std::string columns(std::span<const std::vector<std::string>> rows, std::span<const Align> align) {
  const std::vector<size_t> widths = widths_of(rows);
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line.append(kGap, ' ');
      const std::string filling(widths[i] - display_width(row[i]), ' ');
      line += align[i] == Align::Left ? row[i] + filling : filling + row[i];
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace dlflow
