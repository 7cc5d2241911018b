#pragma once

#include <chrono>
#include <functional>

/// SIGTERM and SIGUSR1, with which the engine asks a step to end and keep its transfers so far.
namespace dlflow::steps {

/// Thrown by long work after a request to stop. Not an error: only the step's main catches it, and
/// ends with exit status 75.
struct Stopped {};

/// After this, the signals set a flag instead of ending the process. Forgets earlier signals.
void watch_stop_signals();

/// Must be called at least every 0.1 s in longer work, on any thread.
void throw_if_stopped();

/// run_step() for a step that transfers files. After a stop signal, prints "stopped; KEPT so far is
/// kept" and returns the exit status for another start.
int run_transfer_step(const std::function<void()>& step, const char* kept);

/// Sleeps. Throws Stopped.
void pause(std::chrono::nanoseconds duration);

}  // namespace dlflow::steps
