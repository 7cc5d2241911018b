#pragma once

#include <unistd.h>

#include <exception>

#include "base/process.h"

namespace dlflow::test {

/// Ends this process with the result of `work`, or with 99 if it throws.
template <typename Work>
[[noreturn]] void exit_with(const Work& work) {
  try {
    ::_exit(int(work()));
  } catch (const std::exception&) {
    ::_exit(99);
  }
}

/// Starts a process that does `work` and exits with its result, or with 99 if it throws.
template <typename Work>
pid_t begin_child(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) exit_with(work);
  return child;
}

/// The exit status of a process that does `work`.
template <typename Work>
int in_child(const Work& work) {
  return wait_for(begin_child(work)).code;
}

}  // namespace dlflow::test
