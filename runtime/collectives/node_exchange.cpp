#include "runtime/collectives/node_exchange.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include "base/error.h"
#include "runtime/comm/communicator.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kRingBytes = 1 << 20;
constexpr size_t kCopiedBytes = 128 << 10;
constexpr size_t kLineBytes = 64;

/// A word is an exchange's number, then a position in an offer; the last position means "all".
constexpr int kPositionBits = 40;
constexpr uint64_t kAll = (uint64_t(1) << kPositionBits) - 1;
/// Numbers of exchanges wrap around: ranks are fewer than half of them apart.
constexpr uint64_t kNumbers = uint64_t(1) << (64 - kPositionBits);

uint64_t word(uint64_t number, uint64_t position) { return number << kPositionBits | position; }

/// The position in exchange `number` by a rank's word `said`: 0 if the rank has not begun it.
uint64_t position_in(uint64_t number, uint64_t said) {
  const uint64_t ahead = ((said >> kPositionBits) - number) % kNumbers;
  if (ahead == 0) return said & kAll;
  return ahead < kNumbers / 2 ? kAll : 0;
}

}  // namespace

Offer Offer::to_all(std::span<const std::byte> bytes, int num_ranks) {
  return {{bytes}, std::vector<ByteRange>(size_t(num_ranks), ByteRange{0, bytes.size()})};
}

Offer Offer::to_each(std::span<const std::byte> bytes, std::span<const size_t> sizes, int rank) {
  Offer offer{{}, std::vector<ByteRange>(sizes.size())};
  std::vector<size_t> begins;
  size_t begin = 0;
  for (const size_t size : sizes) {
    begins.push_back(begin);
    begin += size;
  }
  uint64_t offset = 0;
  for (size_t distance = 1; distance < sizes.size(); ++distance) {
    const size_t to = (size_t(rank) + distance) % sizes.size();
    offer.blocks.push_back(bytes.subspan(begins[to], sizes[to]));
    offer.ranges[to] = {offset, sizes[to]};
    offset += sizes[to];
  }
  return offer;
}

/// The words of a rank. They are followed by the ranges of its offer, by rank, its position in each
/// rank's offer, before which it needs no more, and its ring.
struct NodeExchange::Header {
  alignas(kLineBytes) std::atomic<uint64_t> offered;
  std::atomic<uint32_t> call;  // of the exchange

  std::atomic<uint64_t>& taken(int rank) {
    return *std::launder(reinterpret_cast<std::atomic<uint64_t>*>(
        reinterpret_cast<std::byte*>(this) + kLineBytes * size_t(rank + 1)));
  }
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);  // so that it works between processes

NodeExchange::NodeExchange(Communicator& comm) : comm_(&comm) {
  DLFLOW_CHECK(comm.node_size() == comm.size());
  const size_t ranks = size_t(comm.size());
  static_assert(sizeof(Header) == kLineBytes && sizeof(Offer::ByteRange) <= kLineBytes);
  const auto memory = comm.allocate_shared(kLineBytes * (1 + 2 * ranks) + kRingBytes);
  memory_.assign(memory.begin(), memory.end());
}

void NodeExchange::count_from(uint64_t number) {
  number_ = number;
  for (int peer = 0; peer < comm_->size(); ++peer) {
    header(comm_->rank()).taken(peer).store(word(number, kAll), std::memory_order_release);
  }
}

NodeExchange::Header& NodeExchange::header(int rank) const {
  return *std::launder(reinterpret_cast<Header*>(memory_[size_t(rank)]));
}

Offer::ByteRange* NodeExchange::ranges(int rank) const {
  return std::launder(reinterpret_cast<Offer::ByteRange*>(memory_[size_t(rank)] +
                                                          kLineBytes * (1 + memory_.size())));
}

std::byte* NodeExchange::ring(int rank) const {
  return memory_[size_t(rank)] + kLineBytes * (1 + 2 * memory_.size());
}

class NodeExchange::UnderWay final : public Wait {
 public:
  UnderWay(NodeExchange& all, Offer offer, std::vector<std::span<std::byte>> received)
      : all_(all),
        number_(++all.number_),
        call_(all.comm_->space().call),
        rank_(all.comm_->rank()),
        offer_(std::move(offer)),
        received_(std::move(received)),
        from_(received_.size()) {
    for (const auto& block : offer_.blocks) size_ += block.size();
    for (int rank = 0; rank < all.comm_->size(); ++rank) {
      if (rank != rank_) peers_.push_back(rank);
    }
    DLFLOW_CHECK(size_ < kAll && received_.size() == size_t(all.comm_->size()));
  }

  Progress poll() override {
    bool moved = false;
    if (!has_begun_) {
      if (!is_free()) return Progress::None;
      begin();
      moved = true;
    }
    moved = send() || moved;
    missing_ = -1;
    for (const int peer : peers_) {
      if (from_[size_t(peer)].ended) continue;
      moved = receive(peer) || moved;
      if (!from_[size_t(peer)].ended) missing_ = peer;
    }
    if (missing_ < 0 && sent_ == size_) return Progress::Done;
    return moved ? Progress::Some : Progress::None;
  }
  int peer() const override { return missing_ >= 0 ? missing_ : slowest_; }

 private:
  struct From {
    bool has_come = false, ended = false;
    uint64_t offset = 0, got = 0;
  };

  /// Whether all peers have taken the previous offer of this rank.
  bool is_free() {
    for (const int peer : peers_) {
      if (taken_by(peer, number_ - 1) != kAll) {
        slowest_ = peer;
        return false;
      }
    }
    return true;
  }

  uint64_t taken_by(int peer, uint64_t number) const {
    return number == 0
               ? kAll
               : position_in(number,
                             all_.header(peer).taken(rank_).load(std::memory_order_acquire));
  }

  void begin() {
    has_begun_ = true;
    std::ranges::copy(offer_.ranges, all_.ranges(rank_));
    Header& own = all_.header(rank_);
    own.call.store(call_, std::memory_order_relaxed);
    own.offered.store(word(number_, 0), std::memory_order_release);
    for (const int peer : peers_) {
      if (received_[size_t(peer)].empty()) end(peer);
    }
  }

  void end(int peer) {
    from_[size_t(peer)].ended = true;
    all_.header(rank_).taken(peer).store(word(number_, kAll), std::memory_order_release);
  }

  /// Copies a piece of the offer into the ring, as far as there is room.
  bool send() {
    if (sent_ == size_) return false;
    uint64_t taken = kAll;
    for (const int peer : peers_) {
      const uint64_t by_peer = taken_by(peer, number_);
      if (by_peer < taken) slowest_ = peer;
      taken = std::min(taken, by_peer);
    }
    const uint64_t room = taken >= sent_ ? kRingBytes : kRingBytes - (sent_ - taken);
    while (in_block_ == offer_.blocks[block_].size()) {
      ++block_;
      in_block_ = 0;
    }
    const std::span<const std::byte> left = offer_.blocks[block_].subspan(in_block_);
    const size_t place = sent_ % kRingBytes;
    const size_t bytes = std::min({left.size(), size_t(room), kCopiedBytes, kRingBytes - place});
    if (bytes == 0) return false;
    std::memcpy(all_.ring(rank_) + place, left.data(), bytes);
    in_block_ += bytes;
    sent_ += bytes;
    all_.header(rank_).offered.store(word(number_, sent_), std::memory_order_release);
    return true;
  }

  /// Copies what lies in the ring of `peer` for this rank.
  bool receive(int peer) {
    From& from = from_[size_t(peer)];
    const std::span<std::byte> into = received_[size_t(peer)];
    Header& its = all_.header(peer);
    const uint64_t said = its.offered.load(std::memory_order_acquire);
    if (said >> kPositionBits != number_ % kNumbers) return false;
    std::atomic<uint64_t>& taken = all_.header(rank_).taken(peer);
    const bool comes = !from.has_come;
    if (comes) {
      if (its.call.load(std::memory_order_relaxed) != call_) return false;
      const Offer::ByteRange range = all_.ranges(peer)[rank_];
      if (range.size != into.size()) throw_size_mismatch(rank_, peer, into.size(), range.size);
      from = {true, false, range.offset, 0};
      taken.store(word(number_, range.offset), std::memory_order_release);
    }
    const uint64_t position = from.offset + from.got, offered = said & kAll;
    if (offered <= position) return comes;
    const size_t place = position % kRingBytes;
    const size_t bytes = std::min({size_t(offered - position), into.size() - size_t(from.got),
                                   kCopiedBytes, kRingBytes - place});
    std::memcpy(into.data() + from.got, all_.ring(peer) + place, bytes);
    from.got += bytes;
    if (from.got == into.size()) {
      end(peer);
    } else {
      taken.store(word(number_, position + bytes), std::memory_order_release);
    }
    return true;
  }

  NodeExchange& all_;
  uint64_t number_;
  uint32_t call_;
  int rank_;
  std::vector<int> peers_;  // all other ranks
  Offer offer_;
  std::vector<std::span<std::byte>> received_;
  std::vector<From> from_;
  bool has_begun_ = false;
  uint64_t size_ = 0, sent_ = 0;
  size_t block_ = 0, in_block_ = 0;  // the place of the next byte of the offer
  int missing_ = -1, slowest_ = -1;
};

Task NodeExchange::exchange(Offer offer, std::vector<std::span<std::byte>> received) {
  UnderWay under_way(*this, std::move(offer), std::move(received));
  co_await under_way;
}

}  // namespace dlflow::runtime
