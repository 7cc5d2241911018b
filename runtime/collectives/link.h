#pragma once

#include <optional>
#include <vector>

#include "runtime/collectives/task.h"
#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// Messages that a collective starts together and waits for: `co_await messages`.
class Messages final : public Wait {
 public:
  explicit Messages(Communicator& comm) : comm_(&comm) { transfers_.reserve(2); }

  void add(Transfer transfer) { transfers_.push_back(transfer); }

  /// Asks only for the first that is not known to have ended: asking moves all of them, and is
  /// what costs.
  Progress poll() override;
  int peer() const override { return ended_ < transfers_.size() ? transfers_[ended_].peer : -1; }

 private:
  Communicator* comm_;
  std::vector<Transfer> transfers_;
  size_t ended_ = 0;  // of the first ones
};

/// The ranks of one collective, counted 0 .. size() - 1 among themselves, and the channel that its
/// messages take: collectives under way at a time have a link each.
class Link {
 public:
  /// All ranks of `comm`, which must outlive this. Collective in the sense of open_channel().
  explicit Link(Communicator& comm);

  /// `ranks` of `comm`, this one among them, in the same order on each. The caller opened
  /// `channel`.
  Link(Communicator& comm, std::vector<int> ranks, int channel);

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// The rank at `distance` behind this one in the ring of ranks; it may be negative.
  int neighbour(int distance) const { return ((rank_ + distance) % size_ + size_) % size_; }

  /// None yet: for send and receive below.
  Messages messages() const { return Messages(*comm_); }
  void send(Messages& messages, std::span<const std::byte> bytes, int to) const {
    messages.add(comm_->start_send(bytes, name(to), channel_));
  }
  void receive(Messages& messages, std::span<std::byte> bytes, int from) const {
    messages.add(comm_->start_receive(bytes, name(from), channel_));
  }

  /// The step of most algorithms: `co_await link.exchange(...)`.
  Messages exchange(std::span<const std::byte> sent, int to, std::span<std::byte> received,
                    int from) const;
  Messages send(std::span<const std::byte> bytes, int to) const;
  Messages receive(std::span<std::byte> bytes, int from) const;

 private:
  /// The number of `rank` in the communicator.
  int name(int rank) const { return ranks_.empty() ? rank : ranks_[size_t(rank)]; }

  Communicator* comm_;
  std::vector<int> ranks_;  // empty: all
  int channel_;
  int rank_, size_;
};

}  // namespace dlflow::runtime
