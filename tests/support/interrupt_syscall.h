#pragma once

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <optional>

#include "tests/support/kill_at_syscall.h"

namespace dlflow::test {

/// Runs `work` in a child process in which the first `times` calls of system call `number` are not
/// made and end with EINTR, as if a signal had come. Returns whether the work came to its end, or
/// nothing if processes cannot be traced here (or are not of x86-64).
inline std::optional<bool> interrupt_syscall(uint64_t number, int times,
                                             const std::function<void()>& work) {
#if defined(__x86_64__)
  const pid_t child = ::fork();
  DLFLOW_CHECK(child >= 0);
  if (child == 0) detail::run_traced(work);
  int status = 0;
  DLFLOW_CHECK(::waitpid(child, &status, 0) == child);
  if (WIFEXITED(status)) return std::nullopt;
  DLFLOW_CHECK(
      ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) == 0);
  bool interrupting = false;
  while (true) {
    // Other stops are those of signals, which are passed on.
    const bool of_call = WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80);
    const int signal =
        WIFSTOPPED(status) && !of_call && WSTOPSIG(status) != SIGSTOP && WSTOPSIG(status) != SIGTRAP
            ? WSTOPSIG(status)
            : 0;
    if (of_call) {
      __ptrace_syscall_info info{};
      user_regs_struct registers{};
      DLFLOW_CHECK(::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info) > 0);
      DLFLOW_CHECK(::ptrace(PTRACE_GETREGS, child, nullptr, &registers) == 0);
      if (info.op == PTRACE_SYSCALL_INFO_ENTRY && info.entry.nr == number && times > 0) {
        --times;
        interrupting = true;
        registers.orig_rax = ~0ULL;  // no such call
      } else if (info.op == PTRACE_SYSCALL_INFO_EXIT && interrupting) {
        interrupting = false;
        registers.rax = static_cast<unsigned long long>(-EINTR);
      }
      DLFLOW_CHECK(::ptrace(PTRACE_SETREGS, child, nullptr, &registers) == 0);
    }
    DLFLOW_CHECK(::ptrace(PTRACE_SYSCALL, child, nullptr, signal) == 0);
    DLFLOW_CHECK(::waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      return WIFEXITED(status) && WEXITSTATUS(status) == 0 && times == 0;
    }
  }
#else
  (void)number, (void)times, (void)work;
  return std::nullopt;
#endif
}

}  // namespace dlflow::test
