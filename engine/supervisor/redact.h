#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/secret_file.h"

/// Keeps secrets out of files.
namespace dlflow {

/// Replaces the values of secrets by "***": every byte that belongs to one, also where values
/// overlap.
class Redactor {
 public:
  /// One that changes nothing.
  Redactor() = default;
  explicit Redactor(const Secrets& secrets);

  /// The output that is decided after `bytes`. Only a possible beginning of a value is held back,
  /// so a line without one passes at once.
  std::string next(std::string_view bytes);

  /// The rest at the end of the stream. If it is the beginning of a value, and not a short one, the
  /// program may have been killed while it wrote it: then it is not shown.
  std::string rest();

  /// A separate text, without the rest of a stream.
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
  size_t hidden_ = 0;    // number of bytes of kept_ that belong to complete values
  bool hiding_ = false;  // "***" stands for the byte before kept_
};

}  // namespace dlflow
