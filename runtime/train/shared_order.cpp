#include "runtime/train/shared_order.h"

namespace dlflow::runtime {

std::unique_ptr<EpochOrder> shared_order(Communicator& comm, size_t num_samples, uint64_t seed,
                                         bool reads) {
  const bool first = comm.node_rank() == 0;
  std::byte* const memory =
      comm.allocate_shared(first ? EpochOrder::bytes_for(num_samples, comm.node_size()) : 0)[0];
  return std::make_unique<EpochOrder>(num_samples, seed, memory, comm.node_size(), comm.node_rank(),
                                      reads);
}

}  // namespace dlflow::runtime
