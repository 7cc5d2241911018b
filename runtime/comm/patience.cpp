#include "runtime/comm/patience.h"

#include <algorithm>

namespace dlflow::runtime {
namespace {

using namespace std::chrono_literals;

/// A core that is gone for that long is used by a computation; interrupts and daemons take less.
constexpr Core::Duration kLoss = 200us;

/// With 8 ranks on 2 cores, sleeping at once takes 40 times as long for a few bytes.
constexpr uint64_t kYieldsBeforeSleep = 20;

/// After this time the core may be of more use to the peer, whose core may be shared.
constexpr Core::Duration kLongWait = 1ms;

/// The longest sleep: 1 ms, or a 128th of the time waited, up to 50 ms. Otherwise hundreds of ranks
/// that wait on a few cores for a late rank would poll so often that it gets no core.
constexpr Core::Duration kSleep = 1ms, kLongSleep = 50ms;
constexpr int kPartOfWait = 128;

/// If a message can end the sleep, it lasts an eighth of the time waited, up to this limit: an
/// error of the watch may go unnoticed for that long.
constexpr Core::Duration kTimeToLook = 250ms;

}  // namespace

bool Patience::wait_longer() {
  const Core::Time now = core_.now();
  measure(now);
  const bool contended = contention_.believed(now);
  if (looks_ < spins_ && !contended) return true;
  looks_ = std::max(looks_, spins_);  // does not spin again
  if (!waits_) start(now);
  if (lifeline_) lifeline_->check();
  const Core::Duration waited = now - start_;
  if (contended && yields_ >= kYieldsBeforeSleep) {
    sleep(now, waited / 8, waited);
  } else if (waited >= kLongWait) {
    sleep(now, waited / 32, waited);
  } else {
    yield(now);
  }
  return waited < timeout_;
}

/// Reading the clock of processor time takes ten times as long as the other one, so it is read only
/// after a gap. Copying a large message may also cause a gap.
void Patience::measure(Core::Time now) {
  const bool gap = measures_ && now - looked_ > kLoss;
  looked_ = now;
  if (measures_ && !gap) return;
  const Core::Duration used = core_.used();
  if (gap && (now - measured_since_) - (used - used_) - given_away_ > kLoss) contention_.see(now);
  measures_ = true;
  measured_since_ = now;
  used_ = used;
  given_away_ = 0ns;
}

void Patience::start(Core::Time now) {
  waits_ = true;
  start_ = now;
  if (lifeline_) lifeline_->begin_wait();
}

void Patience::sleep(Core::Time now, Core::Duration duration, Core::Duration waited) {
  const auto most = std::clamp<Core::Duration>(waited / kPartOfWait, kSleep, kLongSleep);
  const auto limit = std::clamp<Core::Duration>(waited / 8, kSleep, kTimeToLook);
  if (waited < kLongWait || !messages_ || !messages_->sleep_until_it_moves(limit)) {
    core_.sleep(std::clamp<Core::Duration>(duration, 5us, most));
  }
  looked_ = core_.now();
  given_away_ += looked_ - now;
}

void Patience::yield(Core::Time now) {
  ++yields_;
  core_.yield();
  looked_ = core_.now();
  given_away_ += looked_ - now;
  if (looked_ - now > kLoss) contention_.see(looked_);
}

}  // namespace dlflow::runtime
