#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/diagnostic.h"

/// Collects what is wrong with one file, while it is read.
namespace dlflow {

class Mistakes {
 public:
  /// `text` is the file's content and outlives this object.
  Mistakes(std::string file, std::string_view text);

  void add(Location location, std::string message);

  /// About something else than the file: an option of the command line.
  void add_elsewhere(std::string where, std::string message);

  size_t count() const { return diagnostics_.size(); }

  /// In the order of the file; each mistake once.
  Diagnostics take();

  std::string_view text() const { return text_; }

  /// Of the byte at `offset` of the text.
  Location location_of(size_t offset) const;

  /// "; did you mean 'train'?" or nothing. Comparing words costs time, so that a file of very many
  /// mistakes gets no advice for the last ones.
  std::string advice(std::string_view word, std::span<const std::string> candidates);

  /// As advice; if none is near, "; known: " and all candidates, unless they are many.
  std::string advice_or_list(std::string_view word, std::span<const std::string> candidates);

 private:
  std::string file_;
  std::string_view text_;
  std::vector<size_t> line_starts_;
  Diagnostics diagnostics_;
  size_t comparisons_left_ = 200'000;  // of words: some tenths of a second
};

}  // namespace dlflow
