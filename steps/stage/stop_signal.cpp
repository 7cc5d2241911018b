#include "steps/stage/stop_signal.h"

#include <signal.h>

#include <initializer_list>

namespace dlflow::steps {
namespace {

volatile sig_atomic_t stop_requested = 0;  // a signal handler can reach nothing else

void request_stop(int) { stop_requested = 1; }

}  // namespace

void watch_stop_signals() {
  stop_requested = 0;
  struct sigaction action {};
  action.sa_handler = request_stop;
  for (const int signal : {SIGTERM, SIGUSR1}) ::sigaction(signal, &action, nullptr);
}

void throw_if_stopped() {
  if (stop_requested != 0) throw Stopped{};
}

}  // namespace dlflow::steps
