#pragma once

#include <span>
#include <vector>

#include "runtime/collectives/link.h"

namespace dlflow::runtime {

/// Sends block r of `sent` to rank r and receives rank r's block for this rank as block r of
/// `received`. Blocks lie one after the other and have the given sizes, which add up to those of
/// the spans; rank j expects the size that rank i sends it. Collective; the spans do not overlap.
///
/// Cost for P ranks that send n bytes each, with a seconds per message, b per byte sent: (P-1) a +
/// (P-1)/P n b, in P-1 rounds of disjoint pairs, so that no rank is overrun.
/// Source: the pairwise exchange of Thakur, Rabenseifner and Gropp, "Optimization of collective
/// communication operations in MPICH", Int. J. High Perf. Comp. Appl. 19 (2005).
Task all_to_all(Link link, std::span<const std::byte> sent, std::vector<size_t> sent_sizes,
                std::span<std::byte> received, std::vector<size_t> received_sizes);

}  // namespace dlflow::runtime
