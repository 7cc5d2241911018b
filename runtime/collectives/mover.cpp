#include "runtime/collectives/mover.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace dlflow::runtime {
namespace {

using namespace std::chrono_literals;

constexpr auto kPeriod = 1ms;
constexpr auto kIdlePeriod = 5ms;
constexpr int kLooksUntilIdle = 100;  // in vain

void move_again_and_again(const std::stop_token& stop, const std::function<bool()>& move) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  for (int in_vain = 0; !stop.stop_requested(); in_vain = move() ? 0 : in_vain + 1) {
    const auto period = in_vain < kLooksUntilIdle ? kPeriod : kIdlePeriod;
    stopped.wait_for(lock, stop, period, [] { return false; });
  }
}

}  // namespace

Mover::Mover(std::function<bool()> move)
    : thread_([move = std::move(move)](const std::stop_token& stop) {
        move_again_and_again(stop, move);
      }) {}

}  // namespace dlflow::runtime
