#include "runtime/comm/thread_communicator.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <queue>
#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/comm/messages.h"

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

}  // namespace

struct ThreadGroup::Shared {
  int num_ranks, ranks_per_node;
  std::chrono::milliseconds timeout;

  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::map<std::pair<int, int>, std::queue<std::vector<std::byte>>> messages;  // (from, to)
  // [rank][i]: what a rank's i-th allocate_shared made.
  std::vector<std::vector<AlignedMemory>> memory;

  Shared(int ranks, std::chrono::milliseconds limit, int per_node)
      : num_ranks(ranks), ranks_per_node(per_node), timeout(limit), memory(ranks) {}
};

namespace {

/// A send is a copy into the receiver's queue and never waits.
class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(ThreadGroup::Shared& shared, int rank) : shared_(shared), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return shared_.num_ranks; }
  std::chrono::milliseconds timeout() const override { return shared_.timeout; }

  void send_receive(std::span<const std::byte> bytes, int to, std::span<std::byte> received,
                    int from) override {
    send(bytes, to);
    receive(received, from);
  }

  void send(std::span<const std::byte> bytes, int to) override {
    const std::lock_guard lock(shared_.mutex);
    shared_.messages[{rank_, to}].emplace(bytes.begin(), bytes.end());
    shared_.changed.notify_all();
  }

  void receive(std::span<std::byte> bytes, int from) override {
    std::unique_lock lock(shared_.mutex);
    auto& queue = shared_.messages[{from, rank_}];
    wait_until(lock, from, [&] { return !queue.empty(); });
    const std::vector<std::byte> message = std::move(queue.front());
    queue.pop();
    if (message.size() != bytes.size())
      throw_size_mismatch(rank_, from, bytes.size(), message.size());
    std::copy(message.begin(), message.end(), bytes.begin());
  }

  int node_size() const override {
    return std::min(shared_.ranks_per_node, size() - first_of_node());
  }
  int node_rank() const override { return rank_ - first_of_node(); }

  std::span<std::byte* const> allocate_shared(size_t bytes) override {
    std::unique_lock lock(shared_.mutex);
    const size_t index = shared_.memory[rank_].size();
    shared_.memory[rank_].push_back(allocate_zeroed(bytes));
    shared_.changed.notify_all();
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
    if (!shared_.changed.wait_for(lock, shared_.timeout, condition)) {
      throw_no_answer(rank_, peer, shared_.timeout);
    }
  }

  ThreadGroup::Shared& shared_;
  int rank_;
  std::vector<std::vector<std::byte*>> parts_;  // of each allocation; their elements never move
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
