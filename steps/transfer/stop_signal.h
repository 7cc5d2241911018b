#pragma once

#include <chrono>
#include <functional>

/// SIGTERM and SIGUSR1: the engine asks for an end, and what was transferred so far is to be kept.
namespace dlflow::steps {

/// Thrown where long work notices that it was asked to stop. Not an error: only the step's main
/// catches it, and ends with exit status 75.
struct Stopped {};

/// From now on the signals set a flag instead of ending the process. Forgets earlier signals.
void watch_stop_signals();

/// Called at least every 0.1 s by whatever takes longer, on any thread.
void throw_if_stopped();

/// run_step() for a step that transfers: watches for the signals, and after one prints "stopped;
/// KEPT so far is kept" and asks to be started again.
int run_transfer_step(const std::function<void()>& step, const char* kept);

/// Waits. Throws Stopped.
void pause(std::chrono::nanoseconds duration);

}  // namespace dlflow::steps
