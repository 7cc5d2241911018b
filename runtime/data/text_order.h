#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/data/dataset.h"

/// Texts of different lengths in batches of similar length.
///
/// A batch is as long as its longest text, so texts of similar length belong together; yet batches
/// must stay random. As in fairseq and Hugging Face's group_by_length, the epoch's random order is
/// cut into windows of many blocks, the texts of a window are sorted by length, and its blocks are
/// shuffled again. Unlike tf.data's bucket_by_sequence_length, there are no queues that fill as
/// texts arrive: the order is a function of (lengths, block, seed, epoch) alone, fixed before the
/// first batch, so that any number of ranks agrees on it and a run can resume anywhere.
namespace dlflow::runtime {

/// Blocks that are sorted together: a larger window has more similar lengths, and is less random.
constexpr size_t kBlocksPerWindow = 64;

/// Groups texts of similar length in `order`, a permutation of the samples of `dataset`, in blocks
/// of `block` samples. Samples that fill no block stay at the end, unchanged.
void group_by_length(const Dataset& dataset, std::span<uint32_t> order, size_t block, uint64_t seed,
                     uint64_t epoch);

/// The length to which texts of at most `longest` tokens are padded: a multiple of an eighth of
/// `most`, the longest possible, so that networks of eight lengths are enough.
size_t padded_length(size_t longest, size_t most);

}  // namespace dlflow::runtime
