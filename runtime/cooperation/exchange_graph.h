#pragma once

#include <cstdint>

/// The one-peer exponential graph of P ranks: in round t every rank sends to the one 2^(t mod L)
/// behind it in the ring of ranks and receives from the one as far before, L = ceil(lg P).
///
/// Whoever averages with what it receives multiplies the ranks' states by a matrix that is doubly
/// stochastic for every P, so that their mean stays; after L rounds something of every rank has
/// reached all, and if P is a power of two all have the mean.
/// Source: Ying et al., arXiv 2110.13363; Assran et al., arXiv 1811.10792.
namespace dlflow::runtime {

/// L; at least 1.
int exchange_rounds(int num_ranks);

struct Neighbours {
  int to = 0;
  int from = 0;
};

/// Of `rank` in round `round`, from 0.
Neighbours neighbours(uint64_t round, int rank, int num_ranks);

}  // namespace dlflow::runtime
