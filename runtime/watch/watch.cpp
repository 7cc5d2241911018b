#include "runtime/watch/watch.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/handle.h"
#include "runtime/comm/communicator.h"
#include "runtime/watch/watch_center.h"
#include "runtime/watch/watch_leaf.h"

namespace dlflow::runtime {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kBeat = 100ms;

/// For all ranks to agree on why they end, and to hear of it. They need less than 1 s, unless
/// processors are busy: who does not wait for the others says the same a second time.
constexpr auto kTimeToAgree = 10s;

/// After an error nobody ends sooner: launchers report the status of the rank that ends first,
/// which is to be that of one that died, and kill the others.
constexpr auto kTimeToLeave = 500ms;

/// The clock, less the time in which this process stood still: a job that was suspended and goes on
/// has missed nothing.
class LivedTime {
 public:
  Clock::time_point at(Clock::time_point now) {
    if (now - last_ >= kStandstill) lost_ += now - last_;
    last_ = now;
    return now - lost_;
  }

 private:
  static constexpr auto kStandstill = 10 * kBeat;
  Clock::time_point last_ = Clock::now();
  Clock::duration lost_{0};
};

/// The thread that watches over one rank.
class Watch {
 public:
  /// On the rank's thread. `lifeline` must outlive this.
  Watch(Lifeline& lifeline, std::unique_ptr<WatchEnd> end, const WatchOptions& options)
      : lifeline_(lifeline),
        options_(options),
        taker_(lifeline),
        end_(std::move(end)),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        thread_([this] { run(); }) {}
  ~Watch() { leave(); }

  /// Waits until all ranks have done their work, or options.linger is over. Throws the WatchError
  /// if they cannot.
  void finish();

  /// Tells the others what this rank threw. Throws what all ranks throw, if they agree in time.
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
  PulseTaker taker_;
  std::unique_ptr<WatchEnd> end_;  // the thread's
  FileDescriptor wake_;
  Clock::time_point raised_at_;  // the thread's
  bool insisted_ = false;        // the thread's

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::optional<Failure> failure_;  // for the thread to pass on
  std::optional<Clock::time_point> leaving_until_;
  bool has_left_ = false;
  bool explained_ = false;  // the rank's thread knows that all end

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
  LivedTime lived;
  for (auto next_beat = Clock::now(); !is_over();) {
    wait(next_beat);
    const auto now = Clock::now(), felt = lived.at(now);
    std::optional<Failure> failure;
    {
      const std::lock_guard lock(mutex_);
      failure = std::exchange(failure_, std::nullopt);
    }
    const bool beats = now >= next_beat || failure;  // what led to it must be known first
    if (beats) next_beat = now + kBeat;
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
  // In this order: once others know, they end, and the launcher with them.
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

/// The rank's thread has had its time to notice.
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

/// A Watch on every rank, or on none.
std::unique_ptr<Watch> start_watch(Communicator& comm, Lifeline& lifeline,
                                   const WatchOptions& options) {
  std::unique_ptr<Watch> watch;
  WatchCenter* center = nullptr;
  std::unique_ptr<WatchLeaf> leaf;
  std::string endpoint;
  if (comm.rank() == 0) {
    auto end = std::make_unique<WatchCenter>(comm.size(), lifeline.calls(), options.limits);
    center = end.get();
    endpoint = to_string(end->endpoint());
    watch = std::make_unique<Watch>(lifeline, std::move(end), options);
  }
  endpoint = broadcast_text(comm, endpoint);
  if (comm.rank() > 0) {
    const bool tells = comm.node_rank() == 0 || comm.rank() == 1;
    leaf = std::make_unique<WatchLeaf>(comm.rank(), endpoint_from(endpoint), lifeline.calls(),
                                       options.limits, tells);
  }
  comm.barrier();
  int joined = center ? center->num_joined() : 0;
  if (joined + 1 < comm.size()) watch.reset();  // before the others leave, which it would call dead
  comm.broadcast(std::as_writable_bytes(std::span(&joined, 1)), 0);
  if (joined + 1 == comm.size()) {
    return leaf ? std::make_unique<Watch>(lifeline, std::move(leaf), options) : std::move(watch);
  }
  if (comm.rank() == 0) {
    const int missing = comm.size() - 1 - joined;
    options.tell("warning: " + std::to_string(missing) + (missing == 1 ? " rank" : " ranks") +
                 " cannot connect to rank 0 by TCP (node " + endpoint_from(endpoint).node +
                 "): a dead rank will be noticed late");
  }
  return nullptr;
}

/// The communicator knows the lifeline for as long as this is there.
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
