#pragma once

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
#include <string>
#include <thread>
#include <vector>

#include "runtime/c_api/exchanges.h"
#include "runtime/c_api/work.h"
#include "runtime/collectives/allreduce.h"
#include "runtime/collectives/link.h"
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
/// Collectives run one after the other, in the order in which they were started. Messages between
/// two ranks begin at once, on the caller's thread, and end in any order: a rank may wait for one
/// before it comes to the collective that others are in already.
class Group {
 public:
  /// Collective. Throws Error if the ranks do not find each other.
  Group(SocketEndpoint endpoint, int rank, const std::vector<std::string>& endpoints,
        GroupOptions options);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group();

  int rank() const { return comm_.rank(); }
  int size() const { return comm_.size(); }

  /// Says what makes `call`, whose texts are literals, and what it does; `make` is called on the
  /// group's thread when it is its turn.
  std::shared_ptr<Work> start(const Call& call, std::function<Task(Group&)> make);
  std::shared_ptr<Work> start_send(std::span<const std::byte> bytes, int to, int tag);
  std::shared_ptr<Work> start_receive(std::span<std::byte> bytes, int from, int tag);

  /// On the group's thread: for `make`.
  Link open_link() { return Link(comm_); }
  Communicator& communicator() { return comm_; }
  Task reduce(Reduction reduction, Reduced values);

  /// Frees `object`, which uses the communicator, with the group. Any thread.
  void keep(std::shared_ptr<void> object);

  /// Returns once `work`, of this group, is done, or after `timeout`, if that is not negative.
  void wait_for(Work& work, std::chrono::milliseconds timeout);

  /// The last call: what was started goes on for up to `linger`, then this rank leaves, and waits
  /// for what is left of it for the others to leave.
  void leave(std::chrono::milliseconds linger);

  void close_in_child() { comm_.close_in_child(); }

 private:
  struct Operation {
    std::shared_ptr<Work> work;
    Call call;
    std::function<Task(Group&)> make;
    std::optional<Task> task{};  // once it has begun
  };
  struct Message {
    std::shared_ptr<Work> work;
    Messages messages;
  };

  using Time = std::chrono::steady_clock::time_point;

  class Turn;

  void run();
  void serve();
  bool wait_for_more();
  void execute(const std::function<bool()>& is_over);
  bool has_more() const;
  bool nothing_under_way();
  Progress move_messages();
  Progress move_operation();
  std::shared_ptr<Work> start_message(Messages messages);
  void check_end();
  Allreduce& sums_of(DataType type);
  [[noreturn]] void throw_late();

  // Of the one thread that has the turn to execute; any thread may send by comm_.
  bool serves_ = false;  // else the thread has comm_ for itself
  SocketCommunicator comm_;
  GroupOptions options_;
  std::map<DataType, Allreduce> sums_;  // made when first needed
  std::list<Message> messages_;
  std::optional<Operation> operation_;  // the one whose turn it is

  std::atomic<int> waiters_{0};  // in wait_for(): the thread makes room for them
  std::mutex mutex_;             // guards what follows
  std::condition_variable changed_, turn_is_free_;
  bool has_turn_ = false;  // some thread has it
  std::deque<Operation> operations_;
  bool under_way_ = false;  // something is in operation_ or messages_
  std::list<Message> new_messages_;
  std::exception_ptr thrown_;             // in wait_for(): for the thread
  std::optional<Work::Failure> failure_;  // nothing is started any more
  std::optional<Time> leaving_until_;
  std::vector<std::shared_ptr<void>> kept_;

  std::thread thread_;  // last: it uses all of this
};

}  // namespace dlflow::runtime
