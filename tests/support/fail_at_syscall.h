#pragma once

#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <optional>

#include "tests/support/kill_at_syscall.h"

/// System calls that fail: what a full disk or a broken one does to code that needs no hooks for
/// it.
namespace dlflow::test {

/// Runs `work` in a child process. Each of its system calls for whose number `fails` says true is
/// not made, and returns `error_number` instead. Returns whether the work came to its end without
/// an exception, or nothing if processes cannot be traced here.
inline std::optional<bool> run_with_failing_syscalls(const std::function<bool(uint64_t)>& fails,
                                                     int error_number,
                                                     const std::function<void()>& work) {
  const pid_t child = ::fork();
  DLFLOW_CHECK(child >= 0);
  if (child == 0) detail::run_traced(work);

  int status = 0;
  DLFLOW_CHECK(::waitpid(child, &status, 0) == child);
  if (WIFEXITED(status)) return std::nullopt;
  DLFLOW_CHECK(
      ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) == 0);
  bool failing = false;
  while (true) {
    DLFLOW_CHECK(::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr) == 0);
    DLFLOW_CHECK(::waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    __ptrace_syscall_info info{};
    if (::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info) <= 0) continue;
    user_regs_struct registers{};
    DLFLOW_CHECK(::ptrace(PTRACE_GETREGS, child, nullptr, &registers) == 0);
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY && fails(info.entry.nr)) {
      failing = true;
      registers.orig_rax = -1;  // no such call
    } else if (info.op == PTRACE_SYSCALL_INFO_EXIT && failing) {
      failing = false;
      registers.rax = -error_number;
    } else {
      continue;
    }
    DLFLOW_CHECK(::ptrace(PTRACE_SETREGS, child, nullptr, &registers) == 0);
  }
}

}  // namespace dlflow::test
