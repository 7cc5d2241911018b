#include "steps/transfer/stop_signal.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <initializer_list>
#include <thread>

#include "base/exit_status.h"
#include "steps/environment/step_environment.h"

namespace dlflow::steps {
namespace {

using namespace std::chrono_literals;

std::atomic<bool> stop_requested = false;  // all that a signal handler can reach
static_assert(std::atomic<bool>::is_always_lock_free);

void request_stop(int) { stop_requested = true; }

}  // namespace

void watch_stop_signals() {
  stop_requested = false;
  struct sigaction action {};
  action.sa_handler = request_stop;
  for (const int signal : {SIGTERM, SIGUSR1}) ::sigaction(signal, &action, nullptr);
}

int run_transfer_step(const std::function<void()>& step, const char* kept) {
  watch_stop_signals();
  return run_step([&] {
    try {
      step();
      return 0;
    } catch (const Stopped&) {
      std::printf("stopped; %s so far is kept\n", kept);
      return kExitAgain;
    }
  });
}

void throw_if_stopped() {
  if (stop_requested) throw Stopped{};
}

void pause(std::chrono::nanoseconds duration) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + duration;
  for (auto left = duration; left.count() > 0; left = end - Clock::now()) {
    throw_if_stopped();
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(left, 20ms));
  }
}

}  // namespace dlflow::steps
