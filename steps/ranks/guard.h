#pragma once

#include <functional>

namespace dlflow::steps {

/// Goes on in a child process, which becomes the rank, and stays behind as its guard: a rank that
/// is killed then ends with a message and an exit status of ours, where mpirun and srun would know
/// a signal only. For main, before there are threads. Returns in the child, which ignores SIGPIPE;
/// the guard
///  - passes signals on, and the child's exit status;
///  - if a signal ended the child that it did not pass on, says so and ends with 75 if
///  can_resume(), else with 128 and the
///    number of the signal;
///  - kills a child that was stopped for longer than the stall timeout (launch.h) and a little: the
///    other ranks have ended by then, and srun would wait for it.
/// The child dies with its guard. Does nothing for a program that no launcher started.
void guard_rank(const std::function<bool()>& can_resume);

}  // namespace dlflow::steps
