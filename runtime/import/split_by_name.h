#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/binary_dataset.h"

/// Samples that are divided into a training and a test split by their names.
namespace dlflow::runtime {

/// Whether the sample `name` is for the test, of which there are about `share` (0 to 1): the first
/// 64 bits of the name's SHA-256 decide, and nothing else. So a sample stays in its split when
/// others come and go, and one for the test stays there when the share grows.
bool is_for_test(const std::string& name, double share);

struct NamedParts {
  std::vector<size_t> train, test;  ///< samples, ascending
};

/// Throws Error{InvalidInput} if a part is empty.
NamedParts split_by_name(std::span<const std::string> names, double share);

/// Those samples of `source`.
SampleSource part_of(const SampleSource& source, const std::vector<size_t>& samples);

}  // namespace dlflow::runtime
