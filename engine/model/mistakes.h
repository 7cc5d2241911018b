#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/diagnostic.h"

/// Collects the mistakes in one file while it is read.
namespace dlflow {

class Mistakes {
 public:
  /// `text` is the file's content and must outlive this object.
  Mistakes(std::string file, std::string_view text);

  void add(Location location, std::string message);

  /// Adds a mistake outside of the file, such as in an option of the command line.
  void add_elsewhere(std::string where, std::string message);

  size_t count() const { return diagnostics_.size(); }

  /// Returns each mistake once, in the order of the file.
  Diagnostics take();

  std::string_view text() const { return text_; }

  /// The location of the byte at `offset` of the text.
  Location location_of(size_t offset) const;

  /// Returns "; did you mean 'train'?" or nothing. The number of comparisons per file is limited,
  /// so that the last of very many mistakes get no advice.
  std::string advice(std::string_view word, std::span<const std::string> candidates);

  /// Like advice(), but without a near word "; known: " and all candidates, unless they are many.
  std::string advice_or_list(std::string_view word, std::span<const std::string> candidates);

 private:
  std::string file_;
  std::string_view text_;
  std::vector<size_t> line_starts_;
  Diagnostics diagnostics_;
  size_t comparisons_left_ = 200'000;  // comparisons of words: some tenths of a second
};

}  // namespace dlflow
