#include "runtime/train/layer_norms.h"

#include <cmath>

#include "runtime/collectives/all_gather.h"

namespace dlflow::runtime {

LayerNorms::LayerNorms(Communicator& comm, std::span<const LayerSlot> layers)
    : comm_(comm),
      num_layers_(layers.size()),
      blocks_(make_blocks(layers)),
      begins_(share_out(blocks_, size_t(comm.size()))) {}

std::span<const Block> LayerNorms::blocks_of(int rank) const {
  const size_t begin = begins_[size_t(rank)];
  return std::span(blocks_).subspan(begin, begins_[size_t(rank) + 1] - begin);
}

std::vector<std::vector<double>> LayerNorms::of(
    std::initializer_list<std::span<const float>> buffers) const {
  std::vector<double> sums(blocks_.size() * buffers.size());  // the buffers of a block side by side
  auto sum = sums.begin() + long(begins_[size_t(comm_.rank())] * buffers.size());
  for (const Block& block : blocks_of(comm_.rank())) {
    for (const auto& buffer : buffers) {
      *sum++ = sum_of_squares(buffer.subspan(block.first, block.count));
    }
  }
  std::vector<size_t> sizes;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    sizes.push_back(blocks_of(rank).size() * buffers.size() * sizeof(double));
  }
  comm_.submit({"all-gather", "norms of layers", sums.size(), "fp64"});
  run(comm_, all_gather(Link(comm_), std::as_writable_bytes(std::span(sums)), std::move(sizes)));

  std::vector norms(buffers.size(), std::vector<double>(num_layers_));
  sum = sums.begin();
  for (const Block& block : blocks_) {
    for (std::vector<double>& of_layers : norms) of_layers[block.layer] += *sum++;
  }
  for (std::vector<double>& of_layers : norms) {
    for (double& norm : of_layers) norm = std::sqrt(norm);
  }
  return norms;
}

}  // namespace dlflow::runtime
