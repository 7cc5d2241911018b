#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "runtime/comm/communicator.h"

namespace dlflow::test {

/// A rank of threads as another machine or library would have it. Those below change a part.
class OtherRank : public runtime::Communicator {
 public:
  explicit OtherRank(runtime::Communicator& comm) : comm_(comm) {}

  int rank() const override { return comm_.rank(); }
  int size() const override { return comm_.size(); }
  std::chrono::milliseconds timeout() const override { return comm_.timeout(); }
  runtime::Transfer start_send(std::span<const std::byte> bytes, int to, int channel) override {
    return comm_.start_send(bytes, to, channel);
  }
  runtime::Transfer start_receive(std::span<std::byte> bytes, int from, int channel) override {
    return comm_.start_receive(bytes, from, channel);
  }
  bool done(runtime::Transfer& transfer) override { return comm_.done(transfer); }
  runtime::Transfer start_sum(const runtime::Values& values) override {
    return comm_.start_sum(values);
  }
  bool can_sum(runtime::DataType type) const override { return comm_.can_sum(type); }
  std::span<const int> nodes() const override { return comm_.nodes(); }
  int node_size() const override { return comm_.node_size(); }
  int node_rank() const override { return comm_.node_rank(); }
  std::span<std::byte* const> allocate_shared(size_t bytes) override {
    return comm_.allocate_shared(bytes);
  }

 private:
  runtime::Communicator& comm_;
};

/// On the nodes that one says, in whatever order ranks were placed there.
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

/// With a library that sums, but not halves. A sum has ended at once, and is that of ranks that
/// all have the same; `sums` counts their elements, in the order in which they began.
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
