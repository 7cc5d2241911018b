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
  std::chrono::milliseconds timeout;  ///< in which something must move
  std::chrono::milliseconds stall;    ///< of a rank that is stopped
  std::string name;                   ///< for messages; may be empty
};

/// One rank's end of a group of the C interface: a communicator, and the thread that executes what
/// was started on it, under watch. Whoever waits for a work executes it meanwhile in the thread's
/// place: handing it over and back would take longer than a small sum.
///
/// Collectives of one urgency run one after the other, in the order in which they were started, in
/// a lane: the most urgent lane moves first, and others while it waits. What two lanes do at a time
/// has channels and memory apart. Memory that ranks share is made together: the first call that
/// needs some begins once all before it are done, and all after it wait for it.
///
/// Messages between two ranks begin at once, on the caller's thread, and end in any order: a rank
/// may wait for one before it comes to the collective that others are in already.
class Group {
 public:
  /// The needs of a collective beside messages; all ranks say the same.
  struct Needs {
    int urgency = 0;  ///< below ChannelSpace::kLanes; the greatest goes first
    enum class Memory {
      None,
      Sums,
      Exchange,
      Own
    } memory = Memory::None;  ///< Own: made by the call
    DataType sums = DataType::Float32;
    auto operator<=>(const Needs&) const = default;
  };

  /// Of a reduction of `count` elements, and of what moves `bytes` in all, the same on all ranks.
  static Needs needs_of(Reduction reduction, size_t count, int urgency = 0);
  static Needs needs_of(size_t bytes);
  /// Collective. Throws Error if the ranks do not find each other.
  Group(SocketEndpoint endpoint, int rank, const std::vector<std::string>& endpoints,
        GroupOptions options);
  ~Group();

  int rank() const { return comm_.rank(); }
  int size() const { return comm_.size(); }

  /// Says what makes `call`, whose texts are literals, and what it does; `make` is called on the
  /// group's thread when it is its turn.
  std::shared_ptr<Work> start(const Call& call, const Needs& needs,
                              std::function<Task(Group&)> make);
  std::shared_ptr<Work> start_send(std::span<const std::byte> bytes, int to, int tag);
  std::shared_ptr<Work> start_receive(std::span<std::byte> bytes, int from, int tag);
  std::shared_ptr<Work> start_receive_from_any(std::span<std::byte> bytes, int tag);

  /// On the group's thread: for `make`.
  Link open_link() { return Link(comm_); }
  Paths open_paths(size_t bytes);
  Task reduce(Reduction reduction, Reduced values, int urgency = 0);
  Communicator& communicator() { return comm_; }

  /// Frees `object`, which uses the communicator, with the group. Any thread.
  void keep(std::shared_ptr<void> object);

  /// The group is there until wait_for() has returned, which follows. Under the work's mutex.
  void expect_waiter() { ++waiters_; }

  /// Returns once `work`, of this group, is done, or after `timeout`, if that is not negative.
  void wait_for(Work& work, std::chrono::milliseconds timeout);

  /// For who goes on afterwards: executes `work` for as long as it moves, if all ranks are on one
  /// node and each computes on so many `threads` that no core is left for the group's own.
  void advance(Work& work, int threads);

  /// The last call: what was started goes on for up to `linger`, then this rank leaves, and waits
  /// for what is left of it for the others to leave.
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
    std::optional<Task> task{};  // once it has begun
  };
  struct FromAny {
    std::span<std::byte> bytes;
    int tag;
  };
  struct Message {
    std::shared_ptr<Work> work;
    Messages messages;
    std::optional<FromAny> from_any{};  // until its sender is known
  };

  using Time = std::chrono::steady_clock::time_point;

  class Turn;

  void run();
  void serve();
  bool wait_for_more();
  /// Ends an execution, by how long nothing has moved.
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

  // Of the one thread that has the turn to execute; any thread may send by comm_.
  bool serves_ = false;  // else the thread has comm_ for itself
  SocketCommunicator comm_;
  GroupOptions options_;
  // By urgency, made when first needed: of ranks of several nodes, and of one.
  std::map<std::pair<DataType, int>, Allreduce> sums_;
  std::map<std::pair<DataType, int>, NodeSum> node_sums_;
  std::optional<NodeExchange> node_;  // likewise
  std::list<Message> messages_;
  std::array<std::optional<Operation>, kLanes> current_;  // whose turn it is

  std::atomic<int> waiters_{0};  // until wait_for() ends: the thread makes room for them
  std::mutex mutex_;             // guards what follows
  std::condition_variable changed_, turn_is_free_;
  bool has_turn_ = false;  // some thread has it
  std::array<std::deque<Operation>, kLanes> operations_;
  uint64_t last_number_ = 0;
  std::set<uint64_t> open_, making_memory_;            // numbers of operations that are not done
  std::set<Needs> made_;                               // memory for these is there, or will be
  std::deque<std::pair<uint64_t, Call>> unsubmitted_;  // the watch knows them in this order
  bool under_way_ = false;                             // something is in current_ or messages_
  std::list<Message> new_messages_;
  std::exception_ptr thrown_;             // in wait_for(): for the thread
  std::optional<Work::Failure> failure_;  // nothing is started any more
  std::optional<Time> leaving_until_;
  std::vector<std::shared_ptr<void>> kept_;

  std::thread thread_;  // last: it uses all of this
};

}  // namespace dlflow::runtime
