#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/binary_writer.h"

/// Divides samples into splits by their names.
namespace dlflow::runtime {

/// Approximate shares of the samples for test and validation, together 0 to 1.
struct SplitShares {
  double test = 0, validation = 0;

  bool given() const { return test > 0 || validation > 0; }
};

/// Returns the first 64 bits of the SHA-256 of `text`.
uint64_t hash_of(const std::string& text);

/// Returns the split of the sample `name`, which depends only on hash_of(name). A sample thus stays
/// in its split when others are added or removed, and a test sample stays one when a share grows.
Split split_of(const std::string& name, const SplitShares& shares);

/// Returns the samples of each split, ascending; test and validation only if they have a share.
/// Throws Error{InvalidInput} if one of these, or the training split, would be empty.
std::map<Split, std::vector<size_t>> split_by_name(std::span<const std::string> names,
                                                   const SplitShares& shares);

/// Returns the part of `source` with these samples.
SampleSource part_of(const SampleSource& source, const std::vector<size_t>& samples);

}  // namespace dlflow::runtime
