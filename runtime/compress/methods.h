#pragma once

#include <memory>
#include <span>

#include "runtime/comm/values.h"
#include "runtime/compress/compressor.h"

namespace dlflow::runtime {

/// The methods of compression, each in its own source file.

/// Sends every gradient as fp16 or bf16, rounded to nearest, ties to even. A finite number beyond
/// fp16's range is sent as its largest number; the difference is sent later, like rounding errors.
/// \param type  Float16 or BFloat16
std::unique_ptr<Compressor> make_half(DataType type);

constexpr size_t kInt8Block = 256;  ///< the scale of each block costs 1.6 % of a message

/// Sends every gradient as an integer from -127 to 127, times a scale for each block of kInt8Block
/// neighbours, whose largest magnitude becomes 127. NaN or infinity makes its whole block NaN. A
/// message is the scales, then the integers.
std::unique_ptr<Compressor> make_int8();

/// Writes to `indices` (at most values.size()) the places of the largest magnitudes in `values`,
/// ascending. NaN is larger than infinity, which is larger than all finite numbers; the first win
/// ties.
///
/// It does not sort: a histogram over exponents and the first bits of mantissas finds the bin of
/// the smallest selected number, and only that bin's numbers are compared. Three passes over
/// `values`.
void select_largest(std::span<const float> values, std::span<uint32_t> indices);

/// Sends exactly the largest gradients and their places. In a long range, a sample selects the few
/// candidates to compare.
/// Source: Aji and Heafield, "Sparse communication for distributed gradient descent", EMNLP 2017.
std::unique_ptr<Compressor> make_top_k();

/// Sends approximately the largest gradients, as many as TopK: bisection between the mean and the
/// maximum finds a threshold with counting passes only; missing entries come from just below it, as
/// a run of neighbours that begins at a random place.
///
/// Differs from the paper: in a long range a sample gives the starting threshold, so that the range
/// is read once; the search goes below the mean if so many are wanted; any number may equal the
/// maximum; with NaN or infinity in the range, exactly the largest are sent, those first.
/// Source: Shi et al., "Towards scalable distributed training of deep learning on public cloud
/// clusters", MLSys 2021, algorithm 1.
std::unique_ptr<Compressor> make_ms_top_k();

/// Sends random gradients, one from each of k neighbourhoods of equal size. All ranks choose the
/// same, so that places need not be sent, and messages can be added directly.
/// Source: Stich, Cordonnier and Jaggi, "Sparsified SGD with memory", NeurIPS 2018.
std::unique_ptr<Compressor> make_random_k();

}  // namespace dlflow::runtime
