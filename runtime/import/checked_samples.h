#pragma once

#include <functional>
#include <string>

#include "runtime/data/binary_writer.h"

/// Samples that are looked at on their way into a data set.
namespace dlflow::runtime {

/// The bad samples that a message names; of more it gives their number.
constexpr size_t kMaxNamedSamples = 20;

/// Throws Error{Corrupt}, "`name`: sample 17: …", if `values`, the floats of a sample, has a NaN or
/// an infinite number.
void require_finite(std::string_view values, const ImageShape& shape, size_t sample,
                    const std::string& name);

/// Calls `write` with a source that gives the samples of `source` and refuses what cannot be read
/// and, of floats, NaN and infinite numbers. After the first bad sample nothing more is written,
/// but all others are looked at: throws one Error{InvalidInput} that names them, a line for each,
/// up to kMaxNamedSamples. Other errors of `write` pass through. \param name  of the source
void write_checked(const SampleSource& source, const std::string& name,
                   const std::function<void(const SampleSource&)>& write);

}  // namespace dlflow::runtime
