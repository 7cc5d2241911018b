#include "runtime/c_api/group.h"

#include <cstdio>
#include <exception>
#include <utility>

#include "runtime/c_api/reduction.h"
#include "runtime/comm/backoff.h"
#include "runtime/comm/messages.h"
#include "runtime/comm/patience.h"
#include "runtime/watch/watch.h"

namespace dlflow::runtime {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// Sums pass through memory of this size, in pieces, so that values are copied and added while they
/// are in the cache, and the next piece is on its way.
constexpr size_t kPieceBytes = 512 << 10;
constexpr size_t kPieces = 4;

/// Between the start of an operation and a call that waits for it.
constexpr auto kTimeToWait = 50us;

/// For who waits while another thread executes.
constexpr auto kTimeToLook = 1ms;

/// Behind those that Communicator::open_channel hands out.
constexpr int kFirstTag = 1 << 15;

/// The runtime's own sums are for these types.
std::optional<DataType> data_type(Reduction reduction) {
  if (reduction.op != DLFLOW_SUM && reduction.op != DLFLOW_AVG) return std::nullopt;
  switch (reduction.type) {
    case DLFLOW_F32:
      return DataType::Float32;
    case DLFLOW_F16:
      return DataType::Float16;
    case DLFLOW_BF16:
      return DataType::BFloat16;
    case DLFLOW_I32:
      return DataType::Int32;
    case DLFLOW_I64:
      return DataType::Int64;
    case DLFLOW_F64:
    case DLFLOW_I8:
    case DLFLOW_U8:
    case DLFLOW_BOOL:
      break;
  }
  return std::nullopt;
}

Work::Failure failure_of(const std::exception& thrown) {
  const auto* const error = dynamic_cast<const Error*>(&thrown);
  return {error ? error->code() : Errc::Unavailable, thrown.what()};
}

}  // namespace

/// The turn to execute, for as long as this lives. No std::timed_mutex: GCC 12's thread sanitizer
/// does not see who holds one.
class Group::Turn {
 public:
  /// Waits for it until `deadline`: false then.
  explicit Turn(Group& group, Time deadline = Time::max()) : group_(group) {
    std::unique_lock lock(group.mutex_);
    const auto is_free = [&] { return !group.has_turn_; };
    if (deadline == Time::max()) {
      group.turn_is_free_.wait(lock, is_free);
    } else if (!group.turn_is_free_.wait_until(lock, deadline, is_free)) {
      return;
    }
    has_it_ = group.has_turn_ = true;
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    if (!has_it_) return;
    const std::lock_guard lock(group_.mutex_);
    group_.has_turn_ = false;
    group_.turn_is_free_.notify_one();
  }
  explicit operator bool() const { return has_it_; }

 private:
  Group& group_;
  bool has_it_ = false;
};

Group::Group(SocketEndpoint endpoint, int rank, const std::vector<std::string>& endpoints,
             GroupOptions options)
    : comm_(std::move(endpoint), rank, endpoints, options.timeout),
      options_(std::move(options)),
      thread_([this] { run(); }) {}

Group::~Group() { leave(0ms); }

void Group::leave(std::chrono::milliseconds linger) {
  {
    const std::lock_guard lock(mutex_);
    if (!leaving_until_) leaving_until_ = Clock::now() + linger;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  while (waiters_ > 0) std::this_thread::yield();  // all works are done
}

std::shared_ptr<Work> Group::start(const Call& call, std::function<Task(Group&)> make) {
  auto work = std::make_shared<Work>(this);
  const std::lock_guard lock(mutex_);
  if (failure_) {
    work->fail(*failure_);
  } else {
    operations_.push_back({work, call, std::move(make)});
    changed_.notify_all();
  }
  return work;
}

std::shared_ptr<Work> Group::start_send(std::span<const std::byte> bytes, int to, int tag) {
  Messages messages(comm_);
  messages.add(comm_.start_send(bytes, to, kFirstTag + tag));
  return start_message(std::move(messages));
}

std::shared_ptr<Work> Group::start_receive(std::span<std::byte> bytes, int from, int tag) {
  Messages messages(comm_);
  messages.add(comm_.start_receive(bytes, from, kFirstTag + tag));
  return start_message(std::move(messages));
}

std::shared_ptr<Work> Group::start_message(Messages messages) {
  auto work = std::make_shared<Work>(this);
  const std::lock_guard lock(mutex_);
  if (failure_) {
    work->fail(*failure_);
  } else {
    new_messages_.push_back({work, std::move(messages)});
    changed_.notify_all();
  }
  return work;
}

void Group::keep(std::shared_ptr<void> object) {
  const std::lock_guard lock(mutex_);
  kept_.push_back(std::move(object));
}

Allreduce& Group::sums_of(DataType type) {
  const auto known = sums_.find(type);
  if (known != sums_.end()) return known->second;
  AllreduceOptions options;
  options.type = type;
  return sums_
      .try_emplace(type, comm_, kPieces * kPieceBytes / runtime::size_of(type), std::move(options))
      .first->second;
}

Task Group::reduce(Reduction reduction, Reduced values) {
  const auto type = data_type(reduction);
  if (!type) return reduce_in_pieces(open_link(), reduction, values);
  return sum_in_pieces(sums_of(*type), kPieceBytes / runtime::size_of(*type), kPieces, values,
                       reduction.op == DLFLOW_AVG, size());
}

/// The thread, from its begin to its end.
void Group::run() {
  WatchOptions options;
  options.limits.stall = options_.stall;
  options.linger = [this] {
    const std::lock_guard lock(mutex_);
    return std::max(0ms,
                    std::chrono::ceil<std::chrono::milliseconds>(*leaving_until_ - Clock::now()));
  };
  options.tell = [this](const std::string& text) {
    const std::string of = options_.name.empty() ? "" : " (group " + options_.name + ")";
    std::fprintf(stderr, "%s%s\n", text.c_str(), of.c_str());
  };
  Work::Failure failure{Errc::Unavailable, "this rank has left the group"};
  try {
    under_watch(comm_, options, [this] { serve(); });
  } catch (const std::exception& error) {
    failure = failure_of(error);
  }
  std::deque<Operation> operations;
  std::list<Message> messages;
  {
    const std::lock_guard lock(mutex_);
    failure_ = failure;
    operations.swap(operations_);
    messages.swap(new_messages_);
  }
  if (operation_) operation_->work->fail(failure);
  for (const Operation& operation : operations) operation.work->fail(failure);
  for (const Message& message : messages_) message.work->fail(failure);
  for (const Message& message : messages) message.work->fail(failure);
}

/// Executes what is started until this rank leaves.
void Group::serve() {
  const auto set = [this](bool serves) {
    const Turn turn(*this);
    serves_ = serves;
  };
  set(true);
  const std::shared_ptr<void> at_end(nullptr, [&](void*) { set(false); });
  while (wait_for_more()) {
    const Turn turn(*this);
    execute([this] { return waiters_ > 0; });
  }
}

/// False once this rank leaves and nothing is left to do.
bool Group::wait_for_more() {
  const Activity activity(comm_, "computes");
  std::unique_lock lock(mutex_);
  const auto has_turn = [this] {
    return thrown_ || (waiters_ == 0 && (has_more() || leaving_until_));
  };
  while (true) {
    changed_.wait(lock, has_turn);
    if (thrown_) std::rethrow_exception(thrown_);
    if (!has_more()) return false;
    // Most callers wait at once for what they started, and execute it.
    if (leaving_until_ || !changed_.wait_for(lock, kTimeToWait, [this] { return waiters_ > 0; })) {
      return true;
    }
  }
}

void Group::wait_for(Work& work, std::chrono::milliseconds timeout) {
  const auto deadline = timeout.count() < 0 ? Clock::time_point::max() : Clock::now() + timeout;
  ++waiters_;
  while (!work.is_done() && Clock::now() < deadline) {
    // Another waiter may have the turn, and end this work, too.
    std::exception_ptr thrown;
    {
      const Turn turn(*this, std::min(deadline, Clock::now() + kTimeToLook));
      if (!turn) continue;
      if (serves_) {
        try {
          execute([&] { return work.is_done() || Clock::now() >= deadline; });
          continue;
        } catch (...) {
          thrown = std::current_exception();
        }
      }
    }
    if (thrown) {  // the thread tells all ranks, then all works
      const std::lock_guard lock(mutex_);
      thrown_ = std::move(thrown);
      changed_.notify_all();
    }
    work.wait(kTimeToLook);
  }
  const std::lock_guard lock(mutex_);
  if (--waiters_ == 0 && (has_more() || leaving_until_)) changed_.notify_all();
}

/// Until `is_over`, or nothing is under way.
void Group::execute(const std::function<bool()>& is_over) {
  Patience patience(comm_);
  for (auto moved_at = Clock::now(); !is_over();) {
    const Progress messages = move_messages(), operation = move_operation();
    if (nothing_under_way()) return;
    if (messages != Progress::None || operation != Progress::None) {
      patience.restart();
      moved_at = Clock::now();
      continue;
    }
    check_end();
    if (!patience.wait() || Clock::now() - moved_at > options_.timeout) throw_late();
  }
}

/// Under the mutex.
bool Group::has_more() const {
  return !operations_.empty() || !new_messages_.empty() || under_way_;
}

bool Group::nothing_under_way() {
  const std::lock_guard lock(mutex_);
  under_way_ = operation_ || !messages_.empty();
  return !has_more();
}

Progress Group::move_messages() {
  {
    const std::lock_guard lock(mutex_);
    messages_.splice(messages_.end(), new_messages_);
  }
  Progress moved = Progress::None;
  for (auto message = messages_.begin(); message != messages_.end();) {
    const Progress progress = message->messages.poll();
    if (progress != Progress::None) moved = Progress::Some;
    if (progress == Progress::Done) message->work->succeed();
    message = progress == Progress::Done ? messages_.erase(message) : std::next(message);
  }
  return moved;
}

Progress Group::move_operation() {
  if (!operation_) {
    const std::lock_guard lock(mutex_);
    if (operations_.empty()) return Progress::None;
    operation_ = std::move(operations_.front());
    operations_.pop_front();
  }
  if (!operation_->task) {
    comm_.submit(operation_->call);
    operation_->task = operation_->make(*this);
  }
  const Progress progress = operation_->task->poll();
  if (progress != Progress::Done) return progress;
  operation_->work->succeed();
  operation_.reset();
  return progress;
}

/// A rank that leaves has no more patience.
void Group::check_end() {
  const std::lock_guard lock(mutex_);
  if (!leaving_until_ || Clock::now() < *leaving_until_) return;
  throw Error(Errc::Unavailable, "rank " + std::to_string(rank()) +
                                     " has left the group while something was under way");
}

void Group::throw_late() {
  const int peer = operation_ && operation_->task ? operation_->task->peer()
                   : messages_.empty()            ? -1
                                                  : messages_.front().messages.peer();
  throw_no_answer(rank(), peer, options_.timeout);
}

}  // namespace dlflow::runtime
