#pragma once

#include <span>
#include <utility>
#include <vector>

#include "tests/support/other_rank.h"

namespace dlflow::test {

/// A rank on the given nodes, with ranks placed there in any order.
class PlacedRank final : public OtherRank {
 public:
  PlacedRank(runtime::Communicator& comm, std::vector<int> nodes)
      : OtherRank(comm), nodes_(std::move(nodes)) {}

  std::span<const int> nodes() const override { return nodes_; }
  int node_size() const override {
    int size = 0;
    for (const int node : nodes_) size += node == nodes_[size_t(rank())] ? 1 : 0;
    return size;
  }

 private:
  std::vector<int> nodes_;
};

/// A rank with a library that sums, but not 16-bit floats. A sum ends at once, as if all ranks had
/// the same values; `sums` lists their sizes in the order of their starts.
class LibraryRank final : public OtherRank {
 public:
  using OtherRank::OtherRank;

  bool can_sum(runtime::DataType type) const override { return !is_half(type); }
  runtime::Transfer start_sum(const runtime::Values& values) override {
    sums.push_back(values.count);
    for (float& number : values.floats()) number *= float(size());
    return {};
  }

  std::vector<size_t> sums;
};

}  // namespace dlflow::test
