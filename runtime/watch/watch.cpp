#include "runtime/watch/watch.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/handle.h"
#include "base/process.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/patience.h"
#include "runtime/watch/watch_center.h"
#include "runtime/watch/watch_member.h"

namespace dlflow::runtime {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// Rank 0 judges at each beat, and up to kRanksOfBeat ranks send it a pulse per beat. With more
/// ranks, their beats are longer, so that rank 0 gets no more pulses a second.
constexpr auto kBeat = 100ms;
constexpr int kRanksOfBeat = 128;

/// Time for all ranks to agree on the reason to end and to receive it: less than 1 s, unless
/// processors are busy. A rank that gave up earlier would report the reason a second time.
constexpr auto kTimeToAgree = 10s;

/// After an error, no rank ends sooner. Launchers report the status of the rank that ends first,
/// which should be one that died, and kill the others.
constexpr auto kTimeToLeave = 500ms;

/// The clock without the time in which this process was stopped: a suspended job that continues has
/// missed nothing. It advances by at least a beat, so that a thread that seldom gets a core decides
/// eventually.
class LivedTime {
 public:
  explicit LivedTime(Clock::duration beat) : beat_(beat) {}

  Clock::time_point at(Clock::time_point now) {
    if (now - last_ >= 10 * beat_) lost_ += now - last_ - beat_;
    last_ = now;
    return now - lost_;
  }

 private:
  Clock::duration beat_;
  Clock::time_point last_ = Clock::now();
  Clock::duration lost_{0};
};

/// The thread that watches one rank.
class Watch {
 public:
  /// Called on the rank's thread. `lifeline` must outlive this.
  Watch(Lifeline& lifeline, std::unique_ptr<WatchEnd> end, const WatchOptions& options,
        Clock::duration beat)
      : lifeline_(lifeline),
        options_(options),
        beat_(beat),
        taker_(lifeline),
        end_(std::move(end)),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        thread_([this] { run(); }) {}
  ~Watch() { leave(); }

  /// Waits until all ranks have done their work, or options.linger is over. Throws the WatchError
  /// if the ranks cannot finish.
  void finish();

  /// Sends the others what this rank threw. Throws the error of all ranks, if they agree in time.
  void explain(const std::exception& thrown);

 private:
  struct Failure {
    Errc code;
    std::string message;
  };

  void leave();
  void wake() const { ::eventfd_write(wake_.get(), 1); }
  void run();
  void wait(Clock::time_point until) const;
  void act(WatchEnd::Outcome outcome);
  bool is_over();
  void insist(Clock::time_point now);

  Lifeline& lifeline_;
  const WatchOptions& options_;
  Clock::duration beat_;
  PulseTaker taker_;
  std::unique_ptr<WatchEnd> end_;  // used by the thread
  FileDescriptor wake_;
  Clock::time_point raised_at_;  // used by the thread
  bool insisted_ = false;        // used by the thread

  std::mutex mutex_;  // guards the following members
  std::condition_variable changed_;
  std::optional<Failure> failure_;  // for the thread to send
  std::optional<Clock::time_point> leaving_until_;
  bool has_left_ = false;
  bool explained_ = false;  // the rank's thread has received the error

  std::thread thread_;
};

void Watch::explain(const std::exception& thrown) {
  const auto* const error = dynamic_cast<const Error*>(&thrown);
  const Errc code = error ? error->code() : Errc::Unavailable;
  std::unique_lock lock(mutex_);
  explained_ = true;
  if (!lifeline_.raised()) {
    failure_ = {code, thrown.what()};
    wake();
    changed_.wait_for(lock, kTimeToAgree, [this] { return lifeline_.raised(); });
  }
  lifeline_.check();
}

void Watch::leave() {
  {
    const std::lock_guard lock(mutex_);
    leaving_until_ = Clock::now() + kTimeToLeave;
  }
  wake();  // not only at its next beat
  thread_.join();
}

void Watch::finish() {
  std::unique_lock lock(mutex_);
  leaving_until_ = Clock::time_point::max();
  wake();
  lifeline_.begin_wait();  // the last one: no work follows
  const auto is_over = [this] { return has_left_ || lifeline_.raised(); };
  if (options_.linger) {
    changed_.wait_for(lock, options_.linger(), is_over);
  } else {
    changed_.wait(lock, is_over);
  }
  lifeline_.check();
}

void Watch::run() {
  LivedTime lived(beat_);
  for (auto next_beat = Clock::now(); !is_over();) {
    wait(next_beat);
    const auto now = Clock::now(), felt = lived.at(now);
    std::optional<Failure> failure;
    {
      const std::lock_guard lock(mutex_);
      failure = std::exchange(failure_, std::nullopt);
    }
    const bool beats = now >= next_beat || failure;  // the pulse goes first
    if (beats) next_beat = now + beat_;
    act(end_->turn(taker_.take(felt), beats, felt));
    if (failure) end_->fail(failure->code, failure->message, felt);
    insist(now);
  }
}

void Watch::wait(Clock::time_point until) const {
  std::vector<pollfd> descriptors = {{wake_.get(), POLLIN, 0}};
  end_->add_to(descriptors);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  ::poll(descriptors.data(), descriptors.size(), int(std::max<int64_t>(0, left.count())));
  eventfd_t ignored = 0;
  ::eventfd_read(wake_.get(), &ignored);
}

void Watch::act(WatchEnd::Outcome outcome) {
  if (lifeline_.raised()) return;
  if (!outcome.warning.empty()) options_.tell("warning: " + outcome.warning);
  if (!outcome.error) return;
  // The order matters: once others receive the error, they end, and the launcher with them.
  if (outcome.tells) options_.tell(std::string("error: ") + outcome.error->what());
  options_.known(*outcome.error);
  end_->pass_on(*outcome.error);
  const std::lock_guard lock(mutex_);
  lifeline_.raise(*outcome.error);
  raised_at_ = Clock::now();
  changed_.notify_all();
}

bool Watch::is_over() {
  const std::lock_guard lock(mutex_);
  if (!leaving_until_) return false;
  has_left_ = end_->leave();
  changed_.notify_all();
  return (has_left_ && !lifeline_.raised()) || Clock::now() >= *leaving_until_;
}

/// Called after the rank's thread had its time to notice the error.
void Watch::insist(Clock::time_point now) {
  if (insisted_ || !lifeline_.raised() || now - raised_at_ < options_.time_to_end) return;
  const std::lock_guard lock(mutex_);
  if (explained_) return;
  insisted_ = true;
  try {
    lifeline_.check();
  } catch (const WatchError& error) {
    options_.last_resort(error);
  }
}

/// Waits for `transfer`; `end` accepts children meanwhile.
void wait(Communicator& comm, Transfer& transfer, WatchEnd* end = nullptr) {
  for (Patience patience(comm); !comm.done(transfer);) {
    if (end) end->gather(Clock::now());
    if (!patience.wait()) throw_no_answer(comm.rank(), transfer.peer, comm.timeout());
  }
}

void receive(Communicator& comm, std::span<std::byte> bytes, int from, int channel) {
  Transfer transfer = comm.start_receive(bytes, from, channel);
  wait(comm, transfer);
}

/// Returns the position of this rank in the tree; the parent sends the address where it listens.
WatchMember::TreePosition receive_position(Communicator& comm, int channel) {
  const int parent = parent_of(comm.rank());
  uint64_t size = 0;
  receive(comm, std::as_writable_bytes(std::span(&size, 1)), parent, channel);
  std::string endpoint(size, ' ');
  receive(comm, std::as_writable_bytes(std::span(endpoint)), parent, channel);
  const bool tells = parent == 0 && (comm.node_rank() == 0 || comm.rank() == 1);
  return {comm.rank(), comm.size(), endpoint_from(endpoint), tells};
}

/// Accepts the children. Returns the number of connected ranks behind this one, which each child
/// reports once it has tried to connect.
int gather(Communicator& comm, WatchEnd& end, int channel) {
  const WatchChildren& children = end.children();
  const std::string endpoint = to_string(children.endpoint());
  const uint64_t size = endpoint.size();
  std::vector<int> connected(size_t(children.size()));
  std::vector<Transfer> transfers;
  for (int i = 0; i < children.size(); ++i) {
    const int child = children.first() + i;
    const std::span count(&connected[size_t(i)], 1);
    transfers.push_back(comm.start_send(std::as_bytes(std::span(&size, 1)), child, channel));
    transfers.push_back(comm.start_send(std::as_bytes(std::span(endpoint)), child, channel));
    transfers.push_back(comm.start_receive(std::as_writable_bytes(count), child, channel));
  }
  for (Transfer& transfer : transfers) wait(comm, transfer, &end);
  return std::accumulate(connected.begin(), connected.end(), 0);
}

/// Sends the parent the number of connected ranks, from this one on.
void tell_parent(Communicator& comm, int connected, int channel) {
  Transfer count =
      comm.start_send(std::as_bytes(std::span(&connected, 1)), parent_of(comm.rank()), channel);
  wait(comm, count);
}

/// Starts a Watch on every rank, or on none.
std::unique_ptr<Watch> start_watch(Communicator& comm, Lifeline& lifeline,
                                   const WatchOptions& options) {
  const int channel = comm.open_channel();
  std::unique_ptr<WatchEnd> end;
  int connected = 0;  // number of ranks, from this one on
  if (comm.rank() == 0) {
    end = std::make_unique<WatchCenter>(comm.size(), lifeline.calls(), options.limits);
    connected = 1 + gather(comm, *end, channel);
  } else {
    auto member = std::make_unique<WatchMember>(receive_position(comm, channel), lifeline.calls(),
                                                options.limits);
    connected = gather(comm, *member, channel) + (member->is_connected() ? 1 : 0);
    tell_parent(comm, connected, channel);
    end = std::move(member);
  }
  comm.broadcast(std::as_writable_bytes(std::span(&connected, 1)), 0);
  if (connected == comm.size()) {
    const int beats = comm.rank() == 0 ? 1 : std::max(1, comm.size() / kRanksOfBeat);
    return std::make_unique<Watch>(lifeline, std::move(end), options, beats * kBeat);
  }
  if (comm.rank() == 0) {
    const int missing = comm.size() - connected;
    options.tell("warning: " + std::to_string(missing) + (missing == 1 ? " rank" : " ranks") +
                 " cannot connect by TCP to the ranks that watch over them (rank 0 is on node " +
                 host_name() + "): a dead rank will be noticed late");
  }
  return nullptr;
}

/// Registers the lifeline with the communicator while this object lives.
class Held {
 public:
  Held(Communicator& comm, Lifeline& lifeline) : comm_(comm) { comm.set_lifeline(&lifeline); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { comm_.set_lifeline(nullptr); }

 private:
  Communicator& comm_;
};

}  // namespace

void under_watch(Communicator& comm, const WatchOptions& options,
                 const std::function<void()>& work) {
  if (comm.size() == 1) return work();
  Lifeline lifeline;
  const std::unique_ptr<Watch> watch = start_watch(comm, lifeline, options);
  if (!watch) return work();
  const Held held(comm, lifeline);
  try {
    work();
    comm.submit({.operation = "end"});
    watch->finish();
  } catch (const std::exception& thrown) {
    watch->explain(thrown);
    throw;
  }
}

}  // namespace dlflow::runtime
