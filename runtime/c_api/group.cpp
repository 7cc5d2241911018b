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
}

std::shared_ptr<Work> Group::start(const Call& call, std::function<Task(Group&)> make) {
  auto work = std::make_shared<Work>();
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
  auto work = std::make_shared<Work>();
  const std::lock_guard lock(mutex_);
  if (failure_) {
    work->fail(*failure_);
  } else {
    new_messages_.push_back({work, std::move(messages)});
    changed_.notify_all();
  }
  return work;
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
  Patience patience(comm_);
  auto moved_at = Clock::now();
  while (true) {
    if (!operation_ && messages_.empty()) {
      patience.restart();
      if (!wait_for_more()) return;
      moved_at = Clock::now();
    }
    const Progress messages = move_messages(), operation = move_operation();
    if (messages != Progress::None || operation != Progress::None) {
      patience.restart();
      moved_at = Clock::now();
      continue;
    }
    check_end();
    if (!patience.wait() || Clock::now() - moved_at > options_.timeout) throw_late();
  }
}

/// False once this rank leaves and nothing is left to do.
bool Group::wait_for_more() {
  const Activity activity(comm_, "computes");
  std::unique_lock lock(mutex_);
  changed_.wait(
      lock, [this] { return !operations_.empty() || !new_messages_.empty() || leaving_until_; });
  return !operations_.empty() || !new_messages_.empty();
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
