#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/binary_writer.h"

/// Samples that are divided into splits by their names.
namespace dlflow::runtime {

/// About how many of the samples are for the test and for validation, from 0 to 1 together.
struct SplitShares {
  double test = 0, validation = 0;
};

/// The split of the sample `name`: the first 64 bits of the name's SHA-256 decide, and nothing
/// else. So a sample stays in its split when others come and go, and one for the test stays there
/// when a share grows.
Split split_of(const std::string& name, const SplitShares& shares);

/// The samples of each split, ascending; of test and validation as far as they have a share.
/// Throws Error{InvalidInput} if one of these, or the training split, would be empty.
std::map<Split, std::vector<size_t>> split_by_name(std::span<const std::string> names,
                                                   const SplitShares& shares);

/// Those samples of `source`.
SampleSource part_of(const SampleSource& source, const std::vector<size_t>& samples);

}  // namespace dlflow::runtime
