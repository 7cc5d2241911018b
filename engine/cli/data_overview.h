#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/sharded_dataset.h"
#include "runtime/data/split_files.h"

namespace dlflow {

/// The values of a target over all samples.
struct TargetRange {
  std::string name;  ///< of its column, if known
  double smallest = INFINITY, largest = -INFINITY, sum = 0, squares = 0;

  void add(double value) {
    smallest = std::min(smallest, value);
    largest = std::max(largest, value);
    sum += value;
    squares += value * value;
  }
};

/// The text of tokens.
struct TokenText {
  size_t vocabulary = 0;
  uint64_t bytes = 0;
  std::string first;  ///< the first sample
};

/// A split, for `data show`.
struct Overview {
  std::filesystem::path file;
  runtime::Dataset dataset;
  std::vector<uint64_t> histogram;  ///< number of samples of each class
  std::vector<std::string> names;   ///< of classes, if they have any
  std::vector<TargetRange> targets;
  uint64_t bytes = 0;
  runtime::ShardIndex shards;
  std::optional<TokenText> text;  ///< if it holds tokens
};

/// The splits that `path` names: a folder, a .dlset, or an index of shards. Throws Error{NotFound}
/// if there are none.
std::vector<runtime::SplitFiles> splits_at(const std::filesystem::path& path);

/// Throws Error like read_split.
Overview overview(const runtime::SplitFiles& split);

double bytes_per_token(const Overview& split);

/// "60,000 samples of 1 x 28 x 28 bytes in 10 classes"
std::string description_of(const Overview& split);

}  // namespace dlflow
