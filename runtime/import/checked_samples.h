#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/binary_writer.h"
#include "runtime/data/split_files.h"

/// Checks samples while they are written to a data set, and the files of a data set.
namespace dlflow::runtime {

/// The number of bad samples that a message names; further ones are only counted.
constexpr size_t kMaxNamedSamples = 20;

/// Throws Error{Corrupt}, "`name`: sample 17: …", if `values`, the floats of a sample, contain NaN
/// or infinity.
void require_finite(std::string_view values, const ImageShape& shape, size_t sample,
                    const std::string& name);

/// Calls `write` with a source that returns the samples of `source`, and refuses unreadable
/// samples, NaN and infinite numbers. The first bad sample ends the writing, but all others are
/// checked: throws a single Error{InvalidInput} with a line for each bad sample, up to
/// kMaxNamedSamples. Other errors of `write` pass through. \param name  of the source
void write_checked(const SampleSource& source, const std::string& name,
                   const std::function<void(const SampleSource&)>& write);

/// Reads all files of a split and compares their hashes. Returns the mistakes: one for each bad
/// file.
std::vector<std::string> mistakes_in(const SplitFiles& split);

}  // namespace dlflow::runtime
