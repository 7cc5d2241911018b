#include "runtime/comm/communicator.h"

#include <fmt/core.h>

#include <thread>

#include "base/error.h"
#include "runtime/comm/patience.h"

namespace dlflow::runtime {
namespace {

constexpr int kBlockingChannel = 0;
constexpr int kChannels = 1 << 14;  // MPI guarantees tags up to 2^15 - 1

constexpr int kLaneBits = 2, kChannelBits = 12;  // and 17 bits for the call fill a negative int
static_assert(ChannelSpace::kLanes == 1 << kLaneBits && ChannelSpace::kCalls < 1 << 17);

}  // namespace

bool Communicator::shares_cores() const {
  if (!shares_cores_) shares_cores_ = unsigned(node_size()) > std::thread::hardware_concurrency();
  return *shares_cores_;
}

int Communicator::open_channel() {
  if (space_) {
    int& last = last_in_lane_.at(size_t(space_->lane));
    last = (last + 1) % (1 << kChannelBits);
    const auto apart = space_->call << kLaneBits | uint32_t(space_->lane);
    return -1 - int(apart << kChannelBits | uint32_t(last));
  }
  last_channel_ = last_channel_ % kChannels + 1;
  return last_channel_;
}

void Communicator::wait(Transfer& transfer) {
  for (Patience patience(*this, this_core(), this); !done(transfer);) {
    if (!patience.wait()) throw_no_answer(rank(), transfer.peer, timeout());
  }
}

void Communicator::send_receive(std::span<const std::byte> bytes, int to,
                                std::span<std::byte> received, int from) {
  Transfer receive = start_receive(received, from, kBlockingChannel);
  Transfer send = start_send(bytes, to, kBlockingChannel);
  wait(receive);
  wait(send);
}

void Communicator::send(std::span<const std::byte> bytes, int to) {
  Transfer transfer = start_send(bytes, to, kBlockingChannel);
  wait(transfer);
}

void Communicator::receive(std::span<std::byte> bytes, int from) {
  Transfer transfer = start_receive(bytes, from, kBlockingChannel);
  wait(transfer);
}

void Communicator::barrier() {
  submit({.operation = "barrier"});
  for (int distance = 1; distance < size(); distance *= 2) {
    const int to = (rank() + distance) % size();
    const int from = (rank() - distance + size()) % size();
    send_receive({}, to, {}, from);
  }
}

void Communicator::broadcast(std::span<std::byte> bytes, int root) {
  submit({.operation = "broadcast", .num_elements = bytes.size(), .type = "bytes", .root = root});
  // In round k the ranks at a distance below 2^k from the root have the bytes and pass them on.
  const int distance = (rank() - root + size()) % size();
  const auto rank_at = [&](int from_root) { return (from_root + root) % size(); };
  for (int reached = 1; reached < size(); reached *= 2) {
    if (distance < reached) {
      if (distance + reached < size()) send(bytes, rank_at(distance + reached));
    } else if (distance < 2 * reached) {
      receive(bytes, rank_at(distance - reached));
    }
  }
}

std::vector<int> ranks_of_node(const Communicator& comm) {
  const std::span<const int> nodes = comm.nodes();
  std::vector<int> ranks;
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (nodes[size_t(rank)] == nodes[size_t(comm.rank())]) ranks.push_back(rank);
  }
  return ranks;
}

std::string broadcast_text(Communicator& comm, std::string text, int root) {
  uint64_t size = text.size();
  comm.broadcast(std::as_writable_bytes(std::span(&size, 1)), root);
  text.resize(size);
  comm.broadcast(std::as_writable_bytes(std::span(text)), root);
  return text;
}

void throw_no_answer(int rank, int peer, std::chrono::milliseconds waited) {
  throw Error(Errc::Unavailable,
              fmt::format("rank {}: {} did not answer within {:g} s; see that rank's own "
                          "messages and whether its node is up",
                          rank, peer < 0 ? "some rank" : fmt::format("rank {}", peer),
                          double(waited.count()) / 1000));
}

void throw_size_mismatch(int rank, int from, size_t expected, size_t received) {
  throw Error(Errc::InvalidInput,
              fmt::format("rank {} expected {} bytes from rank {} and got {}; start all ranks from "
                          "the same program, model and options",
                          rank, expected, from, received));
}

}  // namespace dlflow::runtime
