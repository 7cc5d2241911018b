#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/core.h"
#include "runtime/comm/lifeline.h"
#include "runtime/comm/values.h"

/// The communication between ranks: point-to-point messages, a barrier, and memory that the ranks
/// of a node share. P is size(). Collectives (runtime/collectives) build on this alone.
namespace dlflow::runtime {

/// A message under way: start_send and start_receive return it and done() polls it. The
/// communicator owns its bytes until done() returns true.
struct Transfer {
  static constexpr uint64_t kDone = UINT64_MAX;

  int peer = -1;  ///< the rank at the other end
  int channel = 0;
  bool receives = false;
  std::span<std::byte> received{};  ///< the destination; for a receive only
  uint64_t number = kDone;          ///< the communicator's identifier
};

/// The channels of a collective call: separate from those of other calls, and from those of other
/// lanes, whose calls may be under way at the same time.
struct ChannelSpace {
  static constexpr int kLanes = 4;
  static constexpr uint32_t kCalls = 131'071;  ///< a prime, so that numbers seldom collide

  int lane = 0;       ///< below kLanes
  uint32_t call = 0;  ///< below kCalls; the same for the same call on all ranks
};

/// One rank's end of a group of P ranks. Implementations: MpiCommunicator, SocketCommunicator
/// (TCP), ThreadCommunicator (ranks are threads of one process; for tests). One thread at a time
/// calls it; but any thread may call start_send, start_receive, start_sum and done for its own
/// messages.
///
/// Every call that waits for a peer gives up after timeout() with Error{Unavailable} naming that
/// peer, or earlier with the WatchError of a watch that has found the cause. A message of another
/// size than the receiver expects is Error{InvalidInput}: the ranks' calls differ. After an Error
/// the communicator is unusable.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::chrono::milliseconds timeout() const = 0;

  /// Begins to send or receive and never waits. Messages of one channel between two ranks arrive in
  /// the order in which they were started; channels are independent. The peer may be this rank
  /// itself.
  virtual Transfer start_send(std::span<const std::byte> bytes, int to, int channel) = 0;
  virtual Transfer start_receive(std::span<std::byte> bytes, int from, int channel) = 0;

  /// Whether `transfer` has ended; never waits. Messages progress only inside this call.
  virtual bool done(Transfer& transfer) = 0;

  /// Sleeps until a message moves, for up to `time`. False if not supported.
  virtual bool sleep_until_it_moves(std::chrono::nanoseconds) { return false; }

  /// Begins to replace `values` by their sum over all ranks with the message library's own
  /// all-reduce; all ranks begin such sums in the same order. Requires can_sum() of their type.
  virtual Transfer start_sum(const Values& values) = 0;
  virtual bool can_sum(DataType type) const = 0;

  /// Opens a channel for messages that may be under way together with others. All ranks open theirs
  /// in the same order. There are 2^14 channels; then the oldest is reused.
  int open_channel();

  /// From here on, channels are opened in `space`; each lane needs the same order on all ranks. A
  /// message of one call then never meets a receive of another, whatever their sizes: if ranks
  /// disagree, they wait until their watch reports it. Each lane has 2^12 channels, with negative
  /// numbers. Not supported over MPI.
  void open_channels_in(ChannelSpace space) { space_ = space; }
  ChannelSpace space() const { return space_.value_or(ChannelSpace{}); }

  /// Blocking calls, on a separate channel. send_receive starts both at once; the two spans may
  /// differ in size, but each receive must match its peer's send.
  void send_receive(std::span<const std::byte> send, int to, std::span<std::byte> receive,
                    int from);
  void send(std::span<const std::byte> bytes, int to);
  void receive(std::span<std::byte> bytes, int from);

  /// Returns once every rank has called it; lg P messages. If a rank is missing, the ranks that
  /// wait for it directly name it in their errors; others name the rank that they wait for.
  /// Source: Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", Int. J.
  /// Parallel Programming 17 (1988).
  void barrier();

  /// Copies `bytes` of rank `root` to every rank, along a binomial tree. Collective.
  void broadcast(std::span<std::byte> bytes, int root);

  /// The node of each rank; nodes are counted from 0 in the order of their first ranks.
  virtual std::span<const int> nodes() const = 0;

  /// The number of ranks that share memory with this one, and this rank's place among them, in the
  /// order of ranks.
  virtual int node_size() const = 0;
  virtual int node_rank() const = 0;

  /// Whether this node has more ranks than usable cores.
  bool shares_cores() const;

  /// Allocates memory for the ranks of this node, 64-byte aligned and zeroed: [i] is the part of
  /// node rank i, of the `bytes` that it chose, readable and writable by all. Collective over the
  /// node; lives as long as this object.
  virtual std::span<std::byte* const> allocate_shared(size_t bytes) = 0;

  /// Announces this rank's next collective call, so that the watch can report ranks whose calls
  /// differ (runtime/watch/watch.h). Throws WatchError if a rank cannot go on.
  void submit(const Call& call) {
    if (lifeline_) lifeline_->submit(call);
  }

  /// The lifeline of the watch over this rank, or null. It outlives all waits.
  void set_lifeline(Lifeline* lifeline) { lifeline_ = lifeline; }
  Lifeline* lifeline() const { return lifeline_; }

  /// Whether other processes compete for this rank's cores, as its waits have observed.
  Contention& contention() const { return contention_; }

 private:
  void wait(Transfer& transfer);

  int last_channel_ = 0;
  std::optional<ChannelSpace> space_;
  std::array<int, ChannelSpace::kLanes> last_in_lane_{};
  mutable std::optional<bool> shares_cores_;  // cached after the first call
  Lifeline* lifeline_ = nullptr;
  mutable Contention contention_;
};

/// The ranks of this node, ascending.
std::vector<int> ranks_of_node(const Communicator& comm);

/// Returns the `text` of rank `root` on every rank. Collective.
std::string broadcast_text(Communicator& comm, std::string text, int root = 0);

/// For its lifetime, this rank does something that may take long, such as "saves a checkpoint". It
/// then does not count as stalled, however long others wait for it; with `arrivals`, only while
/// that counter increases.
class Activity {
 public:
  /// `name` is a literal. `arrivals` live as long as `comm`.
  Activity(const Communicator& comm, const char* name,
           const std::atomic<uint64_t>* arrivals = nullptr)
      : lifeline_(comm.lifeline()) {
    if (lifeline_) lifeline_->set_activity(name, arrivals);
  }
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;
  ~Activity() {
    if (lifeline_) lifeline_->set_activity(nullptr);
  }

 private:
  Lifeline* lifeline_;
};

/// Throws Error{Unavailable}: "rank 0: rank 3 did not answer within 30 s; ...". A negative `peer`
/// means an unspecified rank.
[[noreturn]] void throw_no_answer(int rank, int peer, std::chrono::milliseconds waited);

/// Throws Error{InvalidInput}: "rank 0 expected 400 bytes from rank 1 and got 8; ...".
[[noreturn]] void throw_size_mismatch(int rank, int from, size_t expected, size_t received);

}  // namespace dlflow::runtime
