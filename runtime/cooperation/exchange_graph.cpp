#include "runtime/cooperation/exchange_graph.h"

#include <algorithm>
#include <bit>

namespace dlflow::runtime {

int exchange_rounds(int num_ranks) {
  return std::max(1, int(std::bit_width(unsigned(num_ranks - 1))));
}

Neighbours neighbours(uint64_t round, int rank, int num_ranks) {
  const int distance = (1 << round % uint64_t(exchange_rounds(num_ranks))) % num_ranks;
  return {(rank + distance) % num_ranks, (rank - distance + num_ranks) % num_ranks};
}

}  // namespace dlflow::runtime
