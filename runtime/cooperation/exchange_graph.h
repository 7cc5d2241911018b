#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

/// The one-peer exponential graph of P ranks: in round t every rank sends to the rank 2^(t mod L)
/// places after it in the ring and receives from the rank as far before it, L = ceil(lg P).
///
/// Averaging with the received states multiplies the ranks' states by a matrix that is doubly
/// stochastic for every P, so that their mean is preserved; after L rounds every rank has
/// influenced all, and if P is a power of two all have the mean.
/// Source: Ying et al., arXiv 2110.13363; Assran et al., arXiv 1811.10792.
namespace dlflow::runtime {

/// L; at least 1.
inline int exchange_rounds(int num_ranks) {
  return std::max(1, int(std::bit_width(unsigned(num_ranks - 1))));
}

struct Neighbours {
  int to = 0;
  int from = 0;
};

/// The neighbours of `rank` in round `round`, from 0.
inline Neighbours neighbours(uint64_t round, int rank, int num_ranks) {
  const int distance = (1 << round % uint64_t(exchange_rounds(num_ranks))) % num_ranks;
  return {(rank + distance) % num_ranks, (rank - distance + num_ranks) % num_ranks};
}

}  // namespace dlflow::runtime
