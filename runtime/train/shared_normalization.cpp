#include "runtime/train/shared_normalization.h"

#include <algorithm>
#include <vector>

namespace dlflow::runtime {

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
