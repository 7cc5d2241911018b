#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/text.h"

/// Endings of messages about an unknown word.
namespace dlflow {

/// "; known: a, b", or an empty text if there are none or many.
inline std::string known_words(std::span<const std::string> words) {
  constexpr size_t kMostListed = 24;
  return words.empty() || words.size() > kMostListed ? "" : "; known: " + join(words, ", ");
}

/// did_you_mean() if a candidate is near, else known_words().
inline std::string did_you_mean_or_list(std::string_view word,
                                        std::span<const std::string> candidates) {
  const std::string text = did_you_mean(word, candidates);
  return text.empty() ? known_words(candidates) : text;
}

}  // namespace dlflow
