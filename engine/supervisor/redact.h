#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/secret_file.h"

/// Keeps secrets out of what is written down.
namespace dlflow {

/// Puts "***" in the place of the values of secrets: of every byte that belongs to one, wherever
/// it begins, and whether others overlap it.
class Redactor {
 public:
  /// One that changes nothing.
  Redactor() = default;
  explicit Redactor(const Secrets& secrets);

  /// What is known of a stream once `bytes` have come, too. Kept back is only what may be the
  /// beginning of a value: nothing of a line that ends otherwise.
  std::string next(std::string_view bytes);

  /// What was kept back; the stream is at its end. If that is the beginning of a value, and not a
  /// short one, the program may have been killed while it wrote it: then it is not shown.
  std::string rest();

  /// A text of its own, without what was kept back of a stream.
  std::string text(std::string_view whole) const;

  /// The same for all texts and keys of `json`.
  Json json(const Json& json) const;

 private:
  bool is_cut(std::string_view text) const;
  size_t longest_at(std::string_view text) const;
  enum class End { Open, Reached };
  std::string take(End end);

  std::vector<std::string> values_;
  std::array<bool, 256> begins_{};  // by the first byte of a value
  std::string kept_;
  size_t hidden_ = 0;    // how many bytes of kept_ belong to values that are complete
  bool hiding_ = false;  // "***" stands for the byte before kept_
};

}  // namespace dlflow
