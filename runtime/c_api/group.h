#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/c_api/exchanges.h"
#include "runtime/c_api/work.h"
#include "runtime/collectives/allreduce.h"
#include "runtime/collectives/link.h"
#include "runtime/collectives/node_sum.h"
#include "runtime/collectives/task.h"
#include "runtime/comm/socket_communicator.h"

namespace dlflow::runtime {

struct GroupOptions {
  std::chrono::milliseconds timeout;  ///< limit of the time without any progress
  std::chrono::milliseconds stall;    ///< how long a stopped rank may delay others
  std::string name;                   ///< used in messages; may be empty
};

/// One rank's end of a group of the C interface: a communicator, and the thread that executes its
/// operations, under watch. A caller that waits for a work executes it in place of the thread:
/// handing it over and back would take longer than a small sum.
///
/// Collectives of one urgency form a lane and run one after the other, in the order in which they
/// were started. The most urgent lane moves first, and others while it waits. Lanes have separate
/// channels and memory. Memory that ranks share is made together: the first call that needs some
/// begins once all earlier ones are done, and all later ones wait for it.
///
/// Messages between two ranks begin at once, on the caller's thread, and end in any order: a rank
/// may wait for one before it joins a collective that others have already entered.
class Group {
 public:
  /// The needs of a collective besides messages; they must be equal on all ranks.
  struct Needs {
    int urgency = 0;  ///< below ChannelSpace::kLanes; the highest goes first
    enum class Memory {
      None,
      Sums,
      Exchange,
      Own
    } memory = Memory::None;  ///< Own: the call makes it
    DataType sums = DataType::Float32;
    auto operator<=>(const Needs&) const = default;
  };

  /// For a reduction of `count` elements, and for a call that moves `bytes` in all, on every rank.
  static Needs needs_of(Reduction reduction, size_t count, int urgency = 0);
  static Needs needs_of(size_t bytes);
  /// Collective. Throws Error if the ranks cannot connect.
  Group(SocketEndpoint endpoint, int rank, const std::vector<std::string>& endpoints,
        GroupOptions options);
  ~Group();

  int rank() const { return comm_.rank(); }
  int size() const { return comm_.size(); }

  /// Starts `call`, whose texts must be literals. When its turn comes, `make` is called on the
  /// group's thread and returns the task to run.
  std::shared_ptr<Work> start(const Call& call, const Needs& needs,
                              std::function<Task(Group&)> make);
  std::shared_ptr<Work> start_send(std::span<const std::byte> bytes, int to, int tag);
  std::shared_ptr<Work> start_receive(std::span<std::byte> bytes, int from, int tag);
  std::shared_ptr<Work> start_receive_from_any(std::span<std::byte> bytes, int tag);

  /// For use in `make`, on the group's thread.
  Link open_link() { return Link(comm_); }
  Paths open_paths(size_t bytes);
  Task reduce(Reduction reduction, Reduced values, int urgency = 0);
  Communicator& communicator() { return comm_; }

  /// Frees `object`, which uses the communicator, together with the group. Any thread may call it.
  void keep(std::shared_ptr<void> object);

  /// Keeps the group alive until wait_for(), which must follow, returns. Requires the work's mutex.
  void expect_waiter() { ++waiters_; }

  /// Returns once `work`, of this group, is done, or after `timeout`, unless that is negative.
  void wait_for(Work& work, std::chrono::milliseconds timeout);

  /// For callers that have other work: executes `work` while it makes progress, if all ranks are on
  /// one node and each uses `threads` threads, which leave no core for the group's own.
  void advance(Work& work, int threads);

  /// Must be the last call. Started operations continue for up to `linger`; then this rank leaves,
  /// and spends the rest of `linger` waiting for the others to leave.
  void leave(std::chrono::milliseconds linger);

  void close_in_child() { comm_.close_in_child(); }

 private:
  static constexpr size_t kLanes = ChannelSpace::kLanes;
  struct Operation {
    uint64_t number;  // in the order of start()
    std::shared_ptr<Work> work;
    Call call;
    bool makes_memory;
    std::function<Task(Group&)> make;
    std::optional<Task> task{};  // set once it has begun
  };
  struct FromAny {
    std::span<std::byte> bytes;
    int tag;
  };
  struct Message {
    std::shared_ptr<Work> work;
    Messages messages;
    std::optional<FromAny> from_any{};  // set until the sender is known
  };

  using Time = std::chrono::steady_clock::time_point;

  class Turn;

  void run();
  void serve();
  bool wait_for_more();
  /// Whether to end an execution, given how long nothing has moved.
  using IsOver = std::function<bool(Time::duration idle)>;
  void take_part(Work& work, Time deadline, Time::duration patience);
  bool has_free_core(int threads) const;
  void execute(const IsOver& is_over);
  void move_all(const IsOver& is_over);
  bool has_more() const;
  bool nothing_under_way();
  Progress move_messages();
  Progress move_operations();
  Progress move_lane(size_t lane);
  bool may_begin(const Operation& operation) const;
  void begin(Operation& operation);
  Task make_together(std::function<Task(Group&)> make);
  static uint32_t number_of(const Call& call);
  std::shared_ptr<Work> start_message(Messages messages, std::optional<FromAny> from_any = {});
  Progress move_message(Message& message);
  void check_end();
  Task sum(Values input, Values output, int divisor, int urgency);
  [[noreturn]] void throw_late();

  // Only the thread that has the turn to execute uses these; any thread may send with comm_.
  bool serves_ = false;  // else only the thread uses comm_
  SocketCommunicator comm_;
  GroupOptions options_;
  // Sums across nodes and within one, by type and urgency; made on first use.
  std::map<std::pair<DataType, int>, Allreduce> sums_;
  std::map<std::pair<DataType, int>, NodeSum> node_sums_;
  std::optional<NodeExchange> node_;  // also made on first use
  std::list<Message> messages_;
  std::array<std::optional<Operation>, kLanes> current_;  // the running operation of each lane

  std::atomic<int> waiters_{0};  // callers in wait_for(): the thread leaves the turn to them
  std::mutex mutex_;             // guards the following members
  std::condition_variable changed_, turn_is_free_;
  bool has_turn_ = false;  // a thread has the turn
  std::array<std::deque<Operation>, kLanes> operations_;
  uint64_t last_number_ = 0;
  std::set<uint64_t> open_, making_memory_;  // numbers of unfinished operations
  std::set<Needs> made_;                     // needs whose memory exists, or is being made
  std::deque<std::pair<uint64_t, Call>> unsubmitted_;  // to be submitted to the watch in this order
  bool under_way_ = false;                             // current_ or messages_ is not empty
  std::list<Message> new_messages_;
  std::exception_ptr thrown_;             // by wait_for(), for the thread
  std::optional<Work::Failure> failure_;  // if set, nothing can be started
  std::optional<Time> leaving_until_;
  std::vector<std::shared_ptr<void>> kept_;

  std::thread thread_;  // last, since it uses all other members
};

}  // namespace dlflow::runtime
