#pragma once

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <vector>

#include "base/error.h"

/// What a kill -9 leaves behind, or another process does, at any system call: the code under test
/// needs no hooks for it.
namespace dlflow::test {

namespace detail {

/// In the child: waits for the parent to trace it, does the work and ends without cleaning up.
[[noreturn]] inline void run_traced(const std::function<void()>& work) {
  if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(77);
  ::raise(SIGSTOP);
  try {
    work();
  } catch (const std::exception&) {
    ::_exit(1);
  }
  ::_exit(0);
}

}  // namespace detail

/// Runs `work` in a child process and calls `before` ahead of each of its system calls, with the
/// call's number; once that says false, the child is killed. Returns whether the work came to its
/// end, or nothing if processes cannot be traced here.
inline std::optional<bool> watch_syscalls(const std::function<bool(uint64_t)>& before,
                                          const std::function<void()>& work) {
  const pid_t child = ::fork();
  DLFLOW_CHECK(child >= 0);
  if (child == 0) detail::run_traced(work);

  int status = 0;
  DLFLOW_CHECK(::waitpid(child, &status, 0) == child);
  if (WIFEXITED(status)) return std::nullopt;
  DLFLOW_CHECK(
      ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) == 0);
  while (true) {
    DLFLOW_CHECK(::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr) == 0);
    DLFLOW_CHECK(::waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    __ptrace_syscall_info info{};
    if (::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info) <= 0) continue;
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY || before(info.entry.nr)) continue;
    ::kill(child, SIGKILL);
    DLFLOW_CHECK(::waitpid(child, &status, 0) == child);
    return false;
  }
}

/// Runs `work` in a child process and kills it when it is about to make system call number `limit`
/// (from 0). Returns the numbers of the calls made before, or nothing if processes cannot be traced
/// here. `finished` says whether the work came to its end.
inline std::optional<std::vector<uint64_t>> run_until_syscall(size_t limit, bool& finished,
                                                              const std::function<void()>& work) {
  std::vector<uint64_t> calls;
  const auto record = [&](uint64_t number) {
    if (calls.size() == limit) return false;
    calls.push_back(number);
    return true;
  };
  const std::optional<bool> ended = watch_syscalls(record, work);
  finished = ended.value_or(false);
  if (!ended) return std::nullopt;
  return calls;
}

}  // namespace dlflow::test
