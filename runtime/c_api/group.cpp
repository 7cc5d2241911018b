#include "runtime/c_api/group.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>

#include "base/cores.h"
#include "base/text.h"
#include "runtime/c_api/reduction.h"
#include "runtime/comm/backoff.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/patience.h"
#include "runtime/watch/watch.h"

namespace dlflow::runtime {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// Sums between nodes pass through memory in pieces of this size: values are copied and added while
/// they are cached, and the next piece is already on its way.
constexpr size_t kPieceBytes = 512 << 10;
constexpr size_t kPieces = 4;

/// Blocks of this size or more go through the shared memory of a node. Smaller ones arrive as early
/// by messages, whose sender need not wait for receivers.
constexpr size_t kExchangedBytes = 32 << 10;

/// Time from the start of an operation to a call that waits for it.
constexpr auto kTimeToWait = 50us;

/// How often a caller that waits checks while another thread executes.
constexpr auto kTimeToLook = 1ms;

/// Patience of advance(): ranks that do the same reach the same operation within this time.
constexpr auto kTimeToCome = 200us;

/// Above the tags that Communicator::open_channel hands out.
constexpr int kFirstTag = 1 << 15;

/// The types that the runtime's own sums support. These round sums to the type before they divide:
/// a sum of fp16 may be infinite although the mean is not.
std::optional<DataType> data_type(Reduction reduction) {
  if (reduction.op != DLFLOW_SUM && reduction.op != DLFLOW_AVG) return std::nullopt;
  if (reduction.op == DLFLOW_AVG && reduction.type == DLFLOW_F16) return std::nullopt;
  constexpr std::pair<dlflow_type, DataType> kTypes[] = {{DLFLOW_F32, DataType::Float32},
                                                         {DLFLOW_F16, DataType::Float16},
                                                         {DLFLOW_BF16, DataType::BFloat16},
                                                         {DLFLOW_I32, DataType::Int32},
                                                         {DLFLOW_I64, DataType::Int64}};
  for (const auto& [type, known] : kTypes) {
    if (type == reduction.type) return known;
  }
  return std::nullopt;
}

Work::Failure failure_of(const std::exception& thrown) {
  const auto* const error = dynamic_cast<const Error*>(&thrown);
  return {error ? error->code() : Errc::Unavailable, thrown.what()};
}

}  // namespace

/// Holds the turn to execute while it lives. Not a std::timed_mutex, whose owner GCC 12's thread
/// sanitizer does not track.
class Group::Turn {
 public:
  /// Waits for the turn until `deadline`; false afterwards.
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
  const std::lock_guard lock(mutex_);              // the last waiter has released it
}

Group::Needs Group::needs_of(Reduction reduction, size_t count, int urgency) {
  const auto type = data_type(reduction);
  if (!type) return needs_of(count * runtime::size_of(reduction.type));
  return {urgency, Needs::Memory::Sums, *type};
}

Group::Needs Group::needs_of(size_t bytes) {
  return {.memory = bytes < kExchangedBytes ? Needs::Memory::None : Needs::Memory::Exchange};
}

std::shared_ptr<Work> Group::start(const Call& call, const Needs& needs,
                                   std::function<Task(Group&)> make) {
  auto work = std::make_shared<Work>(this);
  const std::lock_guard lock(mutex_);
  if (failure_) {
    work->fail(*failure_);
    return work;
  }
  const bool makes_memory = needs.memory == Needs::Memory::Own ||
                            (needs.memory != Needs::Memory::None && made_.insert(needs).second);
  const uint64_t number = ++last_number_;
  open_.insert(number);
  if (makes_memory) making_memory_.insert(number);
  unsubmitted_.emplace_back(number, call);
  operations_.at(size_t(needs.urgency))
      .push_back({number, work, call, makes_memory, std::move(make)});
  changed_.notify_all();
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

std::shared_ptr<Work> Group::start_receive_from_any(std::span<std::byte> bytes, int tag) {
  return start_message(Messages(comm_), FromAny{bytes, tag});
}

std::shared_ptr<Work> Group::start_message(Messages messages, std::optional<FromAny> from_any) {
  auto work = std::make_shared<Work>(this);
  const std::lock_guard lock(mutex_);
  if (failure_) {
    work->fail(*failure_);
  } else {
    new_messages_.push_back({work, std::move(messages), from_any});
    changed_.notify_all();
  }
  return work;
}

void Group::keep(std::shared_ptr<void> object) {
  const std::lock_guard lock(mutex_);
  kept_.push_back(std::move(object));
}

/// The first sum of each type and urgency allocates its memory.
Task Group::sum(Values input, Values output, int divisor, int urgency) {
  const std::pair key(input.type, urgency);
  if (comm_.node_size() == size()) {
    return node_sums_.try_emplace(key, comm_, input.type).first->second.sum(input, output, divisor);
  }
  const size_t piece = kPieceBytes / runtime::size_of(input.type);
  auto known = sums_.find(key);
  if (known == sums_.end()) {
    AllreduceOptions options;
    options.type = input.type;
    known = sums_.try_emplace(key, comm_, kPieces * piece, std::move(options)).first;
  }
  return sum_in_pieces(known->second, {piece, kPieces}, input, output, divisor);
}

Paths Group::open_paths(size_t bytes) {
  const bool share_node = bytes >= kExchangedBytes && size() > 1 && comm_.node_size() == size();
  if (share_node && !node_) node_.emplace(comm_);
  return {open_link(), share_node ? &*node_ : nullptr};
}

Task Group::reduce(Reduction reduction, Reduced values, int urgency) {
  const auto type = data_type(reduction);
  if (!type)
    return reduce_in_pieces(open_paths(values.count * runtime::size_of(reduction.type)), reduction,
                            values);
  return sum({values.input, values.count, *type}, {values.output, values.count, *type},
             reduction.op == DLFLOW_AVG ? size() : 1, urgency);
}

/// The main function of the thread.
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
    std::fprintf(stderr, "%s%s\n", escaped_lines(text).c_str(), of.c_str());
  };
  Work::Failure failure{Errc::Unavailable, "this rank has left the group"};
  try {
    under_watch(comm_, options, [this] { serve(); });
  } catch (const std::exception& error) {
    failure = failure_of(error);
  }
  std::array<std::deque<Operation>, kLanes> operations;
  std::list<Message> messages;
  {
    const std::lock_guard lock(mutex_);
    failure_ = failure;
    operations.swap(operations_);
    messages.swap(new_messages_);
  }
  for (const auto& operation : current_) {
    if (operation) operation->work->fail(failure);
  }
  for (const auto& lane : operations) {
    for (const Operation& operation : lane) operation.work->fail(failure);
  }
  for (const Message& message : messages_) message.work->fail(failure);
  for (const Message& message : messages) message.work->fail(failure);
}

/// Executes operations until this rank leaves.
void Group::serve() {
  const auto set = [this](bool serves) {
    const Turn turn(*this);
    serves_ = serves;
  };
  set(true);
  const std::shared_ptr<void> at_end(nullptr, [&](void*) { set(false); });
  while (wait_for_more()) {
    const Turn turn(*this);
    if (serves_) execute([this](auto) { return waiters_ > 0; });
  }
}

/// Returns false once this rank leaves and nothing remains to be done.
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
    // Most callers immediately wait for their operation, and execute it themselves.
    if (leaving_until_ || !changed_.wait_for(lock, kTimeToWait, [this] { return waiters_ > 0; })) {
      return true;
    }
  }
}

void Group::wait_for(Work& work, std::chrono::milliseconds timeout) {
  take_part(work, timeout.count() < 0 ? Time::max() : Clock::now() + timeout,
            Clock::duration::max());
}

void Group::advance(Work& work, int threads) {
  const auto deadline = has_free_core(threads) ? Time::min() : Time::max();
  take_part(work, deadline, kTimeToCome);
}

/// Waiting for other nodes needs no core. A process bound to cores has them to itself.
bool Group::has_free_core(int threads) const {
  if (comm_.node_size() != size()) return true;
  const int cores = usable_cores();
  const bool is_bound = cores < int(get_nprocs());
  return cores > threads * (is_bound ? 1 : comm_.node_size());
}

/// Executes until `work` is done, `deadline` has passed, or nothing has moved for `patience`. The
/// caller must be counted in waiters_.
void Group::take_part(Work& work, Time deadline, Clock::duration patience) {
  bool is_idle = false;
  while (!work.is_done() && !is_idle && Clock::now() < deadline) {
    // Another waiter may have the turn, and also complete this work.
    std::exception_ptr thrown;
    {
      const auto time_to_look = std::min<Clock::duration>(patience, kTimeToLook);
      const Turn turn(*this, std::min(deadline, Clock::now() + time_to_look));
      if (!turn) {
        is_idle = patience == time_to_look;
        continue;
      }
      if (serves_) {
        try {
          execute([&](Clock::duration idle) {
            is_idle = idle >= patience;
            return is_idle || work.is_done() || Clock::now() >= deadline;
          });
          continue;
        } catch (...) {
          thrown = std::current_exception();
        }
      }
    }
    if (thrown) {  // the thread reports it to all ranks, then to all works
      const std::lock_guard lock(mutex_);
      if (!thrown_) thrown_ = std::move(thrown);  // the thread may already have it
      changed_.notify_all();
    }
    work.wait(kTimeToLook);
  }
  const std::lock_guard lock(mutex_);
  if (--waiters_ == 0 && (has_more() || leaving_until_)) changed_.notify_all();
}

/// Executes until `is_over`, or nothing is under way. After an error, nothing is executed any more.
void Group::execute(const IsOver& is_over) {
  try {
    move_all(is_over);
  } catch (...) {
    serves_ = false;
    throw;
  }
}

void Group::move_all(const IsOver& is_over) {
  Patience patience(comm_);
  for (auto moved_at = Clock::now(); !is_over(Clock::now() - moved_at);) {
    const Progress messages = move_messages(), operation = move_operations();
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

/// Requires the mutex.
bool Group::has_more() const {
  return std::ranges::any_of(operations_, [](const auto& lane) { return !lane.empty(); }) ||
         !new_messages_.empty() || under_way_;
}

bool Group::nothing_under_way() {
  const std::lock_guard lock(mutex_);
  under_way_ = !messages_.empty() ||
               std::ranges::any_of(current_, [](const auto& one) { return one.has_value(); });
  return !has_more();
}

Progress Group::move_messages() {
  {
    const std::lock_guard lock(mutex_);
    messages_.splice(messages_.end(), new_messages_);
  }
  Progress moved = Progress::None;
  for (auto message = messages_.begin(); message != messages_.end();) {
    const Progress progress = move_message(*message);
    if (progress != Progress::None) moved = Progress::Some;
    if (progress == Progress::Done) message->work->succeed();
    message = progress == Progress::Done ? messages_.erase(message) : std::next(message);
  }
  return moved;
}

Progress Group::move_message(Message& message) {
  if (message.from_any) {
    const auto [bytes, tag] = *message.from_any;
    const int from = comm_.sender_on(kFirstTag + tag);
    if (from < 0) return Progress::None;
    message.work->set_source(from);
    message.messages.add(comm_.start_receive(bytes, from, kFirstTag + tag));
    message.from_any.reset();
  }
  return message.messages.poll();
}

/// A number that is equal on all ranks for the same call. Calls that only differ in the number of
/// elements have the same number only if the difference is a multiple of kCalls.
uint32_t Group::number_of(const Call& call) {
  uint64_t kind = uint64_t(call.root) + 1;  // 0 for calls without a root
  for (const std::string_view text : {call.operation, call.type}) {
    for (const char letter : text) kind = (kind * 31 + uint8_t(letter)) % ChannelSpace::kCalls;
  }
  return uint32_t((kind + call.num_elements) % ChannelSpace::kCalls);
}

/// Less urgent operations move while more urgent ones wait for peers. Each rank moves whichever
/// lane it can: no lane waits for another, except while memory is made.
Progress Group::move_operations() {
  for (size_t lane = kLanes; lane-- > 0;) {
    const Progress progress = move_lane(lane);
    if (progress != Progress::None) return progress;
  }
  return Progress::None;
}

Progress Group::move_lane(size_t lane) {
  std::optional<Operation>& operation = current_[lane];
  if (!operation) {
    const std::lock_guard lock(mutex_);
    auto& waiting = operations_[lane];
    if (waiting.empty() || !may_begin(waiting.front())) return Progress::None;
    operation = std::move(waiting.front());
    waiting.pop_front();
  }
  comm_.open_channels_in({.lane = int(lane), .call = number_of(operation->call)});
  if (!operation->task) begin(*operation);
  const Progress progress = operation->task->poll();
  if (progress != Progress::Done) return progress;
  {
    const std::lock_guard lock(mutex_);
    open_.erase(operation->number);
    making_memory_.erase(operation->number);
  }
  operation->work->succeed();
  operation.reset();
  return progress;
}

/// Requires the mutex.
bool Group::may_begin(const Operation& operation) const {
  if (operation.makes_memory) return *open_.begin() == operation.number;
  return making_memory_.empty() || *making_memory_.begin() > operation.number;
}

void Group::begin(Operation& operation) {
  std::vector<Call> calls;
  {
    const std::lock_guard lock(mutex_);
    while (!unsubmitted_.empty() && unsubmitted_.front().first <= operation.number) {
      calls.push_back(unsubmitted_.front().second);
      unsubmitted_.pop_front();
    }
  }
  for (const Call& call : calls) comm_.submit(call);
  operation.task = operation.makes_memory ? make_together(operation.make) : operation.make(*this);
}

/// Shared memory is made by a blocking call. A barrier precedes it, so no rank waits long in it.
Task Group::make_together(std::function<Task(Group&)> make) {
  co_await barrier(open_link());
  co_await make(*this);
}

/// Throws if the time to linger is over and something is still under way.
void Group::check_end() {
  const std::lock_guard lock(mutex_);
  if (!leaving_until_ || Clock::now() < *leaving_until_) return;
  throw Error(Errc::Unavailable, "rank " + std::to_string(rank()) +
                                     " has left the group while an operation was under way");
}

void Group::throw_late() {
  int peer = messages_.empty() ? -1 : messages_.front().messages.peer();
  for (const auto& operation : current_) {
    if (operation && operation->task) peer = operation->task->peer();
  }
  throw_no_answer(rank(), peer, options_.timeout);
}

}  // namespace dlflow::runtime
