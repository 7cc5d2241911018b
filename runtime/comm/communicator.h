#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "runtime/comm/contention.h"
#include "runtime/comm/lifeline.h"
#include "runtime/comm/values.h"

/// The communication between ranks: point-to-point messages, a barrier, and memory that the ranks
/// of a node share. P is size(). Collectives (runtime/collectives) are built on this and nothing
/// else.
namespace dlflow::runtime {

/// One message under way; what start_send and start_receive return and done() asks about. Its bytes
/// belong to the communicator until done() says so.
struct Transfer {
  static constexpr uint64_t kDone = UINT64_MAX;

  int peer = -1;  ///< the rank at the other end
  int channel = 0;
  bool receives = false;
  std::span<std::byte> received{};  ///< where it goes; of a receive
  uint64_t number = kDone;          ///< what the communicator calls it
};

/// The channels of a collective call: apart from those of calls in another `lane`,
/// which may be under way at the same time, and those of other calls.
struct ChannelSpace {
  static constexpr int kLanes = 4;
  static constexpr uint32_t kCalls = 131'071;  ///< a prime, so that few calls have one number

  int lane = 0;       ///< below kLanes
  uint32_t call = 0;  ///< below kCalls; the same on ranks that come to the same call
};

/// One rank's end of a group of P ranks. Implementations repeat this shape: MpiCommunicator,
/// SocketCommunicator (TCP), ThreadCommunicator (ranks are threads of one process; for tests). One
/// thread at a time calls it; but start_send, start_receive, start_sum and done may be called by
/// any, for messages of its own.
///
/// Every call that waits for a peer gives up after timeout(): Error{Unavailable} naming the rank
/// that was waited for, or with the WatchError of a watch that knows better. A message of another
/// size than the receiver expects is Error{InvalidInput}: the ranks disagree about what they do.
/// After an Error the communicator is unusable.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::chrono::milliseconds timeout() const = 0;

  /// Begins to send or receive and never waits. Messages of one channel between two ranks arrive in
  /// the order in which they were started; channels know nothing of each other. Ranks may be this
  /// rank itself.
  virtual Transfer start_send(std::span<const std::byte> bytes, int to, int channel) = 0;
  virtual Transfer start_receive(std::span<std::byte> bytes, int from, int channel) = 0;

  /// Whether `transfer` has ended; never waits. Progress is made in here alone.
  virtual bool done(Transfer& transfer) = 0;

  /// Sleeps until something moves, for up to `time`. False if this communicator cannot.
  virtual bool sleep_until_it_moves(std::chrono::nanoseconds) { return false; }

  /// Begins to replace `values` by their sum over all ranks with what the message library has for
  /// it; all ranks begin such sums in the same order. Only if it can_sum() their type.
  virtual Transfer start_sum(const Values& values) = 0;
  virtual bool can_sum(DataType type) const = 0;

  /// A channel for messages that may be under way together with others. All ranks open theirs in
  /// the same order. There are 2^14; the oldest is handed out again.
  int open_channel();

  /// Channels are opened in `space` from here on, in the same order on all ranks for each lane
  /// alone. A message that a rank sends in one call never meets a receive of another, whatever
  /// their sizes: ranks that disagree wait, until their watch tells them. A lane has 2^12 channels
  /// then, with numbers below 0; not over MPI.
  void open_channels_in(ChannelSpace space) { space_ = space; }
  ChannelSpace space() const { return space_.value_or(ChannelSpace{}); }

  /// What waits for its end, on a channel of its own. send_receive: neither waits for the other to
  /// begin; spans may be of different sizes, but what one rank sends the other receives.
  void send_receive(std::span<const std::byte> send, int to, std::span<std::byte> receive,
                    int from);
  void send(std::span<const std::byte> bytes, int to);
  void receive(std::span<std::byte> bytes, int from);

  /// Returns once every rank has called it; lg P messages. A rank that is missing is named by the
  /// ranks that wait for it directly; others name the rank that waits in its turn.
  /// Source: Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization",
  /// Int. J. Parallel Programming 17 (1988).
  void barrier();

  /// Copies `bytes` of rank `root` to every rank, along a binomial tree. Collective.
  void broadcast(std::span<std::byte> bytes, int root);

  /// The node of each rank, counted from 0 in the order of their first ranks.
  virtual std::span<const int> nodes() const = 0;

  /// The ranks that share memory with this one: their number, and this rank's place among them, in
  /// the order of ranks.
  virtual int node_size() const = 0;
  virtual int node_rank() const = 0;

  /// Whether this node has more ranks than this one may use cores.
  bool shares_cores() const;

  /// Memory for the ranks of this node, 64-byte aligned and zeroed: [i] is what node rank i
  /// allocated, `bytes` of its choice, readable and writable by all. Collective over the node;
  /// lives as long as this object.
  virtual std::span<std::byte* const> allocate_shared(size_t bytes) = 0;

  /// Says which collective call this rank comes to, so that ranks that come to different ones are
  /// told (runtime/watch/watch.h). Throws WatchError if a rank cannot go on.
  void submit(const Call& call) {
    if (lifeline_) lifeline_->submit(call);
  }

  /// The lifeline of the watch over this rank, or null. It outlives what waits.
  void set_lifeline(Lifeline* lifeline) { lifeline_ = lifeline; }
  Lifeline* lifeline() const { return lifeline_; }

  /// Whether others want the cores of this rank, as its waits have seen.
  Contention& contention() const { return contention_; }

 private:
  void wait(Transfer& transfer);

  int last_channel_ = 0;
  std::optional<ChannelSpace> space_;
  std::array<int, ChannelSpace::kLanes> last_in_lane_{};
  mutable std::optional<bool> shares_cores_;  // once it was asked for
  Lifeline* lifeline_ = nullptr;
  mutable Contention contention_;
};

/// `text` of rank `root`, on every rank. Collective.
std::string broadcast_text(Communicator& comm, std::string text, int root = 0);

/// For its lifetime, this rank does something that may take long, on its own: "saves a checkpoint".
/// However long others wait for it, it does not count as stalled; if it waits for what `arrivals`
/// count, only while they go on.
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

}  // namespace dlflow::runtime
