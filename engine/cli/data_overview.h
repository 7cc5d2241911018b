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

/// "60,000 samples of 1 x 28 x 28 bytes in 10 classes", "506 samples of 13 floats with 1 target",
/// "400 samples of 3 x 64 x 64 bytes with masks of 5 classes", "90 samples of 3 x 224 x 224 bytes
/// from JPEG in 4 classes"; for tokens as describe_tokens()
std::string description_of(const Overview& split);

/// The samples of a set of tokens.
struct TokenCounts {
  uint64_t samples = 0;
  uint32_t length = 0;   ///< tokens of each sample, at most if `unequal`
  bool unequal = false;  ///< samples are texts of different lengths
  uint64_t tokens = 0;   ///< over all samples
  uint32_t classes = 0;  ///< 0: the samples have none
};

/// "1,204 samples of 256 tokens, vocabulary 4,096, 3.42 bytes per token", "1,204 samples of up to
/// 256 tokens, 92.4 on average, in 4 classes, …"
std::string describe_tokens(const TokenCounts& counts, uint64_t vocabulary, double bytes_per_token);

}  // namespace dlflow
