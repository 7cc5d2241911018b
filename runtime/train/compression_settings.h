#pragma once

#include <optional>
#include <string>

#include "runtime/compress/compression.h"
#include "runtime/train/with_reader.h"

namespace dlflow::runtime {

/// Reads those keys of `gradients:` that are about compression (docs/user/compression.md); nothing
/// if `compression` is not among them. Dgc's momentum is not: it is the optimizer's. Throws
/// Error{InvalidInput} naming the key that does not go with the others.
std::optional<Compression> read_compression(WithReader& gradients);

/// "mstopk, density 0.01, hierarchical": all that decides what is sent.
std::string to_text(const Compression& compression);

}  // namespace dlflow::runtime
