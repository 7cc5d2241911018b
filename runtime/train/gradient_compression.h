#pragma once

#include <cstdint>

#include "runtime/comm/communicator.h"
#include "runtime/nn/weight_layout.h"
#include "runtime/reduce/reducer.h"

namespace dlflow::runtime {

/// Tells people, by rank 0, where nothing will be compressed: ranks that share a node send nothing
/// if only nodes compress.
void tell_if_nothing_travels(const Communicator& comm, const Compression& how);

/// Which parameters of `layout` are compressed: weights with rows and columns, and not short ones.
/// Biases, batch normalisation and what is behind the last parameter are summed as they are.
CompressedGradients compressed_gradients(const WeightLayout& layout, const Compression& how,
                                         uint64_t seed);

}  // namespace dlflow::runtime
