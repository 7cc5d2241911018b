#include "engine/model/mistakes.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace dlflow {

std::string to_string(const Diagnostic& diagnostic, const std::string& severity) {
  std::string text = diagnostic.file + ":";
  if (diagnostic.location.line > 0) {
    text += std::to_string(diagnostic.location.line) + ":" +
            std::to_string(diagnostic.location.column) + ":";
  }
  return text + " " + severity + ": " + diagnostic.message;
}

Diagnostics in_order(Diagnostics diagnostics) {
  std::ranges::stable_sort(diagnostics, {}, &Diagnostic::location);
  diagnostics.erase(std::unique(diagnostics.begin(), diagnostics.end()), diagnostics.end());
  return diagnostics;
}

Mistakes::Mistakes(std::string file, std::string_view text)
    : file_(std::move(file)), text_(text), line_starts_({0}) {
  for (size_t i = text.find('\n'); i != text.npos; i = text.find('\n', i + 1)) {
    line_starts_.push_back(i + 1);
  }
}

void Mistakes::add(Location location, std::string message) {
  diagnostics_.push_back({file_, location, std::move(message)});
}

void Mistakes::add_elsewhere(std::string where, std::string message) {
  diagnostics_.push_back({std::move(where), {}, std::move(message)});
}

Diagnostics Mistakes::take() { return in_order(std::move(diagnostics_)); }

Location Mistakes::location_of(size_t offset) const {
  const auto next = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
  return {int(next - line_starts_.begin()), int(offset - *(next - 1)) + 1};
}

std::string Mistakes::advice(std::string_view word, std::span<const std::string> candidates) {
  constexpr size_t kLongestWord = 100;  // longer words are no typos
  if (candidates.size() > comparisons_left_ || word.size() > kLongestWord) return "";
  comparisons_left_ -= candidates.size();
  return did_you_mean(word, candidates);
}

std::string Mistakes::advice_or_list(std::string_view word,
                                     std::span<const std::string> candidates) {
  const std::string text = advice(word, candidates);
  return text.empty() ? known_words(candidates) : text;
}

}  // namespace dlflow
