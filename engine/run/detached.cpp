#include "engine/run/detached.h"

#include <unistd.h>

#include <cerrno>
#include <exception>

#include "base/error.h"

namespace dlflow {
namespace {

/// Runs in a child of this process.
[[noreturn]] void start_in_new_session(const Command& command) {
  ::setsid();
  try {
    start(command);
  } catch (const std::exception&) {
    ::_exit(1);
  }
  ::_exit(0);
}

}  // namespace

void start_detached(Command command) {
  command.closes_descriptors = true;  // otherwise a lock of the caller would be held until the end
  const pid_t child = ::fork();
  if (child < 0) throw_errno("cannot start " + command.argv.front(), errno);
  if (child == 0) start_in_new_session(command);
  if (wait_for(child).code != 0) {
    throw Error(Errc::Unavailable, "cannot start " + command.argv.front());
  }
}

}  // namespace dlflow
