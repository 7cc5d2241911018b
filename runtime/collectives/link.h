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

  /// Polls only the first message that is not known to have ended: each poll is expensive and moves
  /// all of them.
  Progress poll() override;
  int peer() const override { return ended_ < transfers_.size() ? transfers_[ended_].peer : -1; }

 private:
  Communicator* comm_;
  std::vector<Transfer> transfers_;
  size_t ended_ = 0;  // the number of leading messages that have ended
};

/// The ranks of one collective, counted 0 .. size() - 1 among themselves, and the channel that its
/// messages take. Concurrent collectives have a link each.
class Link {
 public:
  /// All ranks of `comm`, which must outlive this. Collective in the sense of open_channel().
  explicit Link(Communicator& comm);

  /// `ranks` of `comm`, including this one, in the same order on each. The caller opened `channel`.
  Link(Communicator& comm, std::vector<int> ranks, int channel);

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// The rank at `distance` behind this one in the ring; `distance` may be negative.
  int neighbour(int distance) const { return ((rank_ + distance) % size_ + size_) % size_; }

  /// An empty set, to be filled by send and receive below.
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
