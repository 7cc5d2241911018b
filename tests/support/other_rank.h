#pragma once

#include <chrono>
#include <span>

#include "runtime/comm/communicator.h"

namespace dlflow::test {

/// A thread's rank as if on another machine or library. Derived classes override a part.
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

}  // namespace dlflow::test
