#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/compress/compressor.h"

/// The settings of gradient compression.
namespace dlflow::runtime {

enum class CompressionMethod { Float16, BFloat16, Int8, TopK, MsTopK, RandomK, Dgc, PowerSgd };

/// The way from compressed gradients to their sum.
enum class Aggregation {
  AllGather,     ///< every rank compresses its own gradients
  GlobalTopK,    ///< the same; only the largest of the sum survive
  Hierarchical,  ///< a node's ranks add theirs in full; node sums are compressed between nodes
};

struct Compression {
  CompressionMethod method = CompressionMethod::MsTopK;
  Aggregation aggregation = Aggregation::Hierarchical;
  double density = 0.01;       ///< sparse methods: the share of the numbers that is sent
  uint64_t warmup_epochs = 0;  ///< sparse methods: the epochs with a higher density
  size_t rank = 2;             ///< for PowerSgd
  double clip = 0;             ///< Dgc: norm beyond which gradients are scaled down; 0: none
  double momentum = 0;         ///< Dgc: replaces the optimizer's momentum

  bool operator==(const Compression&) const = default;
};

/// Whether the method sends the largest numbers and their places.
constexpr bool sends_largest(CompressionMethod method) {
  return method == CompressionMethod::TopK || method == CompressionMethod::MsTopK ||
         method == CompressionMethod::Dgc;
}

/// Whether the method sends only the share `density` of the numbers.
constexpr bool is_sparse(CompressionMethod method) {
  return sends_largest(method) || method == CompressionMethod::RandomK;
}

/// The density in an epoch. During warm-up it falls by the same factor in each epoch, from near 1:
/// with 0.001 and four epochs as in DGC, 25 %, 6.3 %, 1.6 %, 0.4 %.
double density_in_epoch(const Compression& compression, uint64_t epoch);

/// Returns null for PowerSgd, which is not a Compressor.
std::unique_ptr<Compressor> make_compressor(CompressionMethod method);

}  // namespace dlflow::runtime
