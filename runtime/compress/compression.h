#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/compress/compressor.h"

/// The compression of gradients, as values.
namespace dlflow::runtime {

enum class CompressionMethod { Float16, BFloat16, Int8, TopK, MsTopK, RandomK, Dgc, PowerSgd };

/// The way from compressed gradients to their sum.
enum class Aggregation {
  AllGather,     ///< every rank compresses what it has
  GlobalTopK,    ///< the same; of the sum of all only the largest survive
  Hierarchical,  ///< a node's ranks add all they have; their sum is compressed between nodes
};

struct Compression {
  CompressionMethod method = CompressionMethod::MsTopK;
  Aggregation aggregation = Aggregation::Hierarchical;
  double density = 0.01;       ///< of sparse methods: the share of the numbers that is sent
  uint64_t warmup_epochs = 0;  ///< of sparse methods: in which more is sent
  size_t rank = 2;             ///< of PowerSgd
  double clip = 0;             ///< of Dgc: norm beyond which gradients are scaled down; 0: none
  double momentum = 0;         ///< of Dgc, which has it instead of the optimizer

  bool operator==(const Compression&) const = default;
};

/// Sends the largest numbers and where they are.
constexpr bool sends_largest(CompressionMethod method) {
  return method == CompressionMethod::TopK || method == CompressionMethod::MsTopK ||
         method == CompressionMethod::Dgc;
}

/// Sends a few of the numbers, as `density` says.
constexpr bool is_sparse(CompressionMethod method) {
  return sends_largest(method) || method == CompressionMethod::RandomK;
}

/// While warming up it falls from epoch to epoch by the same factor, from near 1: with 0.001 and
/// four epochs as in DGC, 25 %, 6.3 %, 1.6 %, 0.4 %.
double density_in_epoch(const Compression& compression, uint64_t epoch);

/// None for PowerSgd, which is no Compressor.
std::unique_ptr<Compressor> make_compressor(CompressionMethod method);

}  // namespace dlflow::runtime
