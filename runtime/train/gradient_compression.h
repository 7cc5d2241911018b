#pragma once

#include <cstdint>

#include "runtime/comm/communicator.h"
#include "runtime/nn/weight_layout.h"
#include "runtime/reduce/reducer.h"

namespace dlflow::runtime {

/// Rank 0 prints a note if nothing will be compressed: the ranks of one node send nothing if only
/// nodes compress.
void tell_if_nothing_travels(const Communicator& comm, const Compression& how);

/// Selects the parameters of `layout` to compress: weights with rows and columns that are not
/// short. Biases, batch normalisation and slots behind the last parameter are summed uncompressed.
CompressedGradients compressed_gradients(const WeightLayout& layout, const Compression& how,
                                         uint64_t seed);

}  // namespace dlflow::runtime
