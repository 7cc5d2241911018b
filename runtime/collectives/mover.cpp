#include "runtime/collectives/mover.h"

#include <chrono>
#include <utility>

namespace dlflow::runtime {
namespace {

using namespace std::chrono_literals;

constexpr auto kPeriod = 500us;
constexpr auto kIdlePeriod = 5ms;
constexpr int kLooksUntilIdle = 200;  // in vain

}  // namespace

Mover::Mover(std::function<bool()> move)
    : thread_([move = std::move(move)](const std::stop_token& stop) {
        for (int in_vain = 0; !stop.stop_requested(); in_vain = move() ? 0 : in_vain + 1) {
          std::this_thread::sleep_for(in_vain < kLooksUntilIdle ? kPeriod : kIdlePeriod);
        }
      }) {}

}  // namespace dlflow::runtime
