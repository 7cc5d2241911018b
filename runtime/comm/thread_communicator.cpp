#include "runtime/comm/thread_communicator.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <tuple>

#include "base/error.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/patience.h"

namespace dlflow::runtime {
namespace {

struct AlignedDelete {
  void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t(64)); }
};
using AlignedMemory = std::unique_ptr<std::byte[], AlignedDelete>;

AlignedMemory allocate_zeroed(size_t bytes) {
  AlignedMemory memory(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t(64))));
  std::memset(memory.get(), 0, bytes);
  return memory;
}

/// Messages of one channel from one rank to another. The n-th message is for the n-th receive.
struct Mailbox {
  std::map<uint64_t, std::vector<std::byte>> arrived;  // by number
  uint64_t sent = 0, awaited = 0;
};

}  // namespace

struct ThreadGroup::Shared {
  int num_ranks, ranks_per_node;
  std::chrono::milliseconds timeout;

  std::mutex mutex;                                        // guards the members below
  std::map<std::tuple<int, int, int>, Mailbox> mailboxes;  // (from, to, channel)
  // [rank][i]: memory of that rank's i-th allocate_shared
  std::vector<std::vector<AlignedMemory>> memory;

  Shared(int ranks, std::chrono::milliseconds limit, int per_node)
      : num_ranks(ranks), ranks_per_node(per_node), timeout(limit), memory(ranks) {}
};

namespace {

/// A send is a copy into the receiver's queue and never waits.
class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(ThreadGroup::Shared& shared, int rank) : shared_(shared), rank_(rank) {
    for (int i = 0; i < shared.num_ranks; ++i) nodes_.push_back(i / shared.ranks_per_node);
  }

  int rank() const override { return rank_; }
  int size() const override { return shared_.num_ranks; }
  std::chrono::milliseconds timeout() const override { return shared_.timeout; }

  Transfer start_send(std::span<const std::byte> bytes, int to, int channel) override {
    const std::lock_guard lock(shared_.mutex);
    Mailbox& mailbox = shared_.mailboxes[{rank_, to, channel}];
    mailbox.arrived.emplace(mailbox.sent++, std::vector(bytes.begin(), bytes.end()));
    return {to, channel, false, {}, Transfer::kDone};
  }

  Transfer start_receive(std::span<std::byte> bytes, int from, int channel) override {
    const std::lock_guard lock(shared_.mutex);
    Mailbox& mailbox = shared_.mailboxes[{from, rank_, channel}];
    return {from, channel, true, bytes, mailbox.awaited++};
  }

  bool done(Transfer& transfer) override {
    if (transfer.number == Transfer::kDone) return true;
    const std::lock_guard lock(shared_.mutex);
    const auto mailbox = shared_.mailboxes.find({transfer.peer, rank_, transfer.channel});
    const auto message = mailbox->second.arrived.find(transfer.number);
    if (message == mailbox->second.arrived.end()) return false;
    const auto& [number, bytes] = *message;
    if (bytes.size() != transfer.received.size()) {
      throw_size_mismatch(rank_, transfer.peer, transfer.received.size(), bytes.size());
    }
    std::ranges::copy(bytes, transfer.received.begin());
    transfer.number = Transfer::kDone;
    mailbox->second.arrived.erase(message);
    if (mailbox->second.arrived.empty() && mailbox->second.sent == mailbox->second.awaited) {
      shared_.mailboxes.erase(mailbox);
    }
    return true;
  }

  bool can_sum(DataType) const override { return false; }
  Transfer start_sum(const Values&) override { DLFLOW_CHECK(false); }

  std::span<const int> nodes() const override { return nodes_; }
  int node_size() const override {
    return std::min(shared_.ranks_per_node, size() - first_of_node());
  }
  int node_rank() const override { return rank_ - first_of_node(); }

  std::span<std::byte* const> allocate_shared(size_t bytes) override {
    std::unique_lock lock(shared_.mutex);
    const size_t index = shared_.memory[rank_].size();
    shared_.memory[rank_].push_back(allocate_zeroed(bytes));
    auto& parts = parts_.emplace_back();
    for (int i = 0; i < node_size(); ++i) {
      const auto& allocations = shared_.memory[first_of_node() + i];
      wait_until(lock, first_of_node() + i, [&] { return allocations.size() > index; });
      parts.push_back(allocations[index].get());
    }
    return parts;
  }

 private:
  int first_of_node() const { return rank_ / shared_.ranks_per_node * shared_.ranks_per_node; }

  template <typename Condition>
  void wait_until(std::unique_lock<std::mutex>& lock, int peer, Condition condition) {
    for (Patience patience(*this); !condition();) {
      lock.unlock();
      if (!patience.wait()) throw_no_answer(rank_, peer, shared_.timeout);
      lock.lock();
    }
  }

  ThreadGroup::Shared& shared_;
  int rank_;
  std::vector<int> nodes_;
  std::vector<std::vector<std::byte*>> parts_;  // of each allocation; never reallocated
};

}  // namespace

ThreadGroup::ThreadGroup(int num_ranks, std::chrono::milliseconds timeout, int ranks_per_node)
    : shared_(std::make_unique<Shared>(num_ranks, timeout,
                                       ranks_per_node == 0 ? num_ranks : ranks_per_node)) {
  for (int rank = 0; rank < num_ranks; ++rank) {
    communicators_.push_back(std::make_unique<ThreadCommunicator>(*shared_, rank));
  }
}

ThreadGroup::~ThreadGroup() = default;

Communicator& ThreadGroup::communicator(int rank) { return *communicators_.at(rank); }

}  // namespace dlflow::runtime
