#pragma once

#include <cstddef>
#include <vector>

#include "runtime/nn/arena.h"

namespace dlflow::runtime {

/// The segments of a step's n operations to compute twice, so that its values take at most
/// `most_bytes` together with what it needs `beside`: none if they do anyway. Segments have about
/// equal memory; as few of them as are needed, from the first operation on, since the last is read
/// right after the forward pass. Throws Error{InvalidInput} that says how much the least is.
/// Source: Chen et al., arXiv 1604.06174, section 4.
std::vector<Segment> choose_segments(Arena& arena, int num_operations, size_t most_bytes,
                                     size_t beside);

}  // namespace dlflow::runtime
