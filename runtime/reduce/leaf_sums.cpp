#include "runtime/reduce/leaf_sums.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "runtime/collectives/all_gather.h"

namespace dlflow::runtime {

LeafSums::LeafSums(Communicator& comm, size_t num_leaves)
    : comm_(comm), additions_(sum_in_leaf_order(num_leaves, int(num_leaves)).additions) {
  for (int rank = 0; rank < comm.size(); ++rank) {
    shares_.push_back(leaf_share(num_leaves, rank, comm.size()));
  }
}

void LeafSums::add(std::span<const std::span<double>> own, size_t count) {
  const LeafShare& share = shares_[size_t(comm_.rank())];
  DLFLOW_CHECK(own.size() == share.count);
  rows_.resize(additions_.size() * count);
  for (size_t i = 0; i < own.size(); ++i) {
    DLFLOW_CHECK(own[i].size() == count);
    std::ranges::copy(own[i], rows_.begin() + long((share.first + i) * count));
  }
  exchange(count);
  add_up(count);
  for (const std::span<double> sums : own) std::copy_n(rows_.begin(), count, sums.begin());
}

void LeafSums::exchange(size_t count) {
  std::vector<size_t> sizes;
  for (const LeafShare& share : shares_) sizes.push_back(share.count * count * sizeof(double));
  comm_.submit({"all-gather", "sums of leaves", rows_.size(), "fp64"});
  run(comm_, all_gather(Link(comm_), std::as_writable_bytes(std::span(rows_)), std::move(sizes)));
}

/// Adds along a stack that starts at the first row, where the result remains.
void LeafSums::add_up(size_t count) {
  const auto row = [&](size_t i) { return rows_.data() + i * count; };
  size_t height = 0;
  for (size_t leaf = 0; leaf < additions_.size(); ++leaf) {
    if (height < leaf) std::copy_n(row(leaf), count, row(height));
    ++height;
    for (uint8_t n = additions_[leaf]; n > 0; --n) {
      --height;
      for (size_t i = 0; i < count; ++i) row(height - 1)[i] += row(height)[i];
    }
  }
  DLFLOW_CHECK(height == 1);
}

}  // namespace dlflow::runtime
