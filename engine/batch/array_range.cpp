#include "engine/batch/array_range.h"

#include "base/text.h"

namespace dlflow {

std::string format_array_range(std::span<const uint32_t> tasks) {
  std::string text;
  for (size_t first = 0; first < tasks.size();) {
    size_t last = first;
    while (last + 1 < tasks.size() && tasks[last + 1] == tasks[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(tasks[first]);
    if (last > first) text += (last == first + 1 ? "," : "-") + std::to_string(tasks[last]);
    first = last + 1;
  }
  return text;
}

std::vector<uint32_t> parse_array_range(std::string_view text, size_t at_most) {
  if (text.starts_with('[')) text.remove_prefix(1);
  text = text.substr(0, text.find_first_of("]%"));
  std::vector<uint32_t> tasks;
  for (const std::string& part : split(text, ',')) {
    const size_t colon = part.find(':');
    const std::string range = part.substr(0, colon);
    const uint32_t step =
        colon == part.npos
            ? 1
            : number_from<uint32_t>(std::string_view(part).substr(colon + 1)).value_or(0);
    const size_t dash = range.find('-');
    const auto first = number_from<uint32_t>(std::string_view(range).substr(0, dash));
    const auto last = dash == range.npos
                          ? first
                          : number_from<uint32_t>(std::string_view(range).substr(dash + 1));
    if (!first || !last || step == 0) continue;
    for (uint64_t task = *first; task <= *last && tasks.size() < at_most; task += step) {
      tasks.push_back(uint32_t(task));
    }
  }
  return tasks;
}

}  // namespace dlflow
