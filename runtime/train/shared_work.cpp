#include "runtime/train/shared_work.h"

#include <algorithm>
#include <vector>

namespace dlflow::runtime {

std::unique_ptr<EpochOrder> shared_order(Communicator& comm, size_t num_samples, uint64_t seed,
                                         bool reads) {
  const bool first = comm.node_rank() == 0;
  std::byte* const memory =
      comm.allocate_shared(first ? EpochOrder::bytes_for(num_samples, comm.node_size()) : 0)[0];
  return std::make_unique<EpochOrder>(num_samples, seed, memory, comm.node_size(), comm.node_rank(),
                                      reads);
}

Normalization shared_normalization(Communicator& comm, const Dataset& dataset, StepImages* images) {
  const Activity activity(comm, "measures the training data");
  const size_t blocks = num_normalization_blocks(dataset), channels = dataset.shape.channels;
  const auto first_of = [&](int rank) { return blocks * size_t(rank) / size_t(comm.size()); };
  std::vector<PixelSums> sums(blocks * channels);
  for (size_t block = first_of(comm.rank()); block < first_of(comm.rank() + 1); ++block) {
    std::ranges::copy(sums_of_block(dataset, block, images), &sums[block * channels]);
  }
  for (int rank = 0; rank < comm.size(); ++rank) {
    const size_t first = first_of(rank) * channels, end = first_of(rank + 1) * channels;
    comm.broadcast(std::as_writable_bytes(std::span(sums).subspan(first, end - first)), rank);
  }
  return normalization_of(dataset, sums);
}

}  // namespace dlflow::runtime
