#pragma once

#include <memory>
#include <span>

#include "runtime/comm/values.h"
#include "runtime/compress/compressor.h"

namespace dlflow::runtime {

/// The methods of compression, each in a source file of its own.

/// Sends every gradient as fp16 or bf16, to the nearest, ties to even. A finite number beyond what
/// fp16 has becomes its largest; the rest of it is sent later, as what rounding leaves is.
/// \param type  Float16 or BFloat16
std::unique_ptr<Compressor> make_half(DataType type);

constexpr size_t kInt8Block = 256;  ///< a scale for each costs 1.6 % of a message

/// Sends every gradient as a whole number from -127 to 127, times a scale for each block of
/// kInt8Block neighbours, in which the largest is 127. With NaN or infinity in a block all of it is
/// NaN. A message is the scales, then the numbers.
std::unique_ptr<Compressor> make_int8();

/// Writes to `indices` (at most values.size() of them) where the largest of `values` are, without
/// regard to their sign; ascending. NaN is larger than infinity, and that than all else; of equals
/// the first are taken.
///
/// No sort: a histogram over exponents and the first bits of mantissas finds the bin in which the
/// smallest that is taken lies, and only what is in that bin is compared. Three passes over
/// `values`.
void select_largest(std::span<const float> values, std::span<uint32_t> indices);

/// Sends the largest gradients and where they are: exactly those. Of a long range a sample tells
/// which few are looked at.
/// Source: Aji and Heafield, "Sparse communication for distributed gradient descent", EMNLP 2017.
std::unique_ptr<Compressor> make_top_k();

/// Sends about the largest gradients, and as many as TopK: a threshold is searched for by bisection
/// between the mean and the maximum, which takes nothing but passes that count, and what is missing
/// comes from just below it: a run of neighbours, from where chance says.
///
/// Beside the paper: of a long range a sample tells where to begin, so that it is read once; below
/// the mean, too, where so many are asked for; any number of equals at the maximum; with NaN or
/// infinity in the range exactly the largest, those first.
/// Source: Shi et al., "Towards scalable distributed training of deep learning on public cloud
/// clusters", MLSys 2021, algorithm 1.
std::unique_ptr<Compressor> make_ms_top_k();

/// Sends gradients that chance picks, the same on all ranks, so that where they are need not be
/// said, and messages can be added as they are: one of each of k neighbourhoods of equal size.
/// Source: Stich, Cordonnier and Jaggi, "Sparsified SGD with memory", NeurIPS 2018.
std::unique_ptr<Compressor> make_random_k();

}  // namespace dlflow::runtime
