#pragma once

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/fault.h"

/// Simulates a kill -9, a full disk or another process at any system call, without hooks in the
/// code under test.
namespace dlflow::test {

/// The outcome of a system call.
struct Fate {
  enum class Kind { Made, Fails, Kills };
  Kind kind = Kind::Made;
  int error = 0;  ///< errno of a failing call

  static Fate made() { return {}; }
  static Fate fails(int error) { return {Kind::Fails, error}; }
  static Fate kills() { return {Kind::Kills}; }
};

namespace detail {

/// In the child: waits to be traced by the parent, does the work and ends without cleaning up.
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

/// Waits for the next stop at a system call; other signals are delivered meanwhile. Returns nothing
/// once the child has ended; `status` is then that of waitpid().
inline std::optional<__ptrace_syscall_info> next_stop(pid_t child, int& status) {
  long signal = 0;
  while (true) {
    DLFLOW_CHECK(::ptrace(PTRACE_SYSCALL, child, nullptr, signal) == 0 || errno == ESRCH);
    DLFLOW_CHECK(::waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) || WIFSIGNALED(status)) return std::nullopt;
    signal = WSTOPSIG(status);
    if (signal != (SIGTRAP | 0x80)) continue;
    __ptrace_syscall_info info{};
    DLFLOW_CHECK(::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info) > 0);
    return info;
  }
}

/// Sets registers between the start of a call and its end.
inline void change_registers(pid_t child, const std::function<void(user_regs_struct&)>& change) {
  user_regs_struct registers{};
  DLFLOW_CHECK(::ptrace(PTRACE_GETREGS, child, nullptr, &registers) == 0);
  change(registers);
  DLFLOW_CHECK(::ptrace(PTRACE_SETREGS, child, nullptr, &registers) == 0);
}

}  // namespace detail

/// Runs `work` in a child process and calls `fate_of` before each system call of its first thread,
/// with the call's number. Returns its exit status: 0 if the work finished, 1 for an exception, 128
/// + n for signal n; nothing if processes cannot be traced here.
inline std::optional<int> run_watched(const std::function<Fate(uint64_t)>& fate_of,
                                      const std::function<void()>& work) {
  const pid_t child = ::fork();
  DLFLOW_CHECK(child >= 0);
  if (child == 0) detail::run_traced(work);

  int status = 0;
  DLFLOW_CHECK(::waitpid(child, &status, 0) == child);
  if (WIFEXITED(status)) return std::nullopt;
  DLFLOW_CHECK(
      ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) == 0);
  std::optional<int> failing;  // errno of the child's current call
  while (const auto stop = detail::next_stop(child, status)) {
    if (stop->op == PTRACE_SYSCALL_INFO_EXIT && failing) {
      detail::change_registers(child, [&](user_regs_struct& r) { r.rax = -*failing; });
      failing.reset();
    }
    if (stop->op != PTRACE_SYSCALL_INFO_ENTRY) continue;
    const Fate fate = fate_of(stop->entry.nr);
    if (fate.kind == Fate::Kind::Kills) ::kill(child, SIGKILL);
    if (fate.kind != Fate::Kind::Fails) continue;
    failing = fate.error;
    detail::change_registers(child, [](user_regs_struct& r) { r.orig_rax = -1; });  // invalid
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// run_watched() in which system call `number` always fails with `error`.
inline std::optional<int> run_without(uint64_t number, int error,
                                      const std::function<void()>& work) {
  return run_watched(
      [&](uint64_t call) { return call == number ? Fate::fails(error) : Fate::made(); }, work);
}

/// The numbers of the system calls that `work` makes in a child process, which is killed just
/// before call `limit` (from 0); nothing if processes cannot be traced here. `finished`: whether
/// the work finished.
inline std::optional<std::vector<uint64_t>> run_until_syscall(size_t limit, bool& finished,
                                                              const std::function<void()>& work) {
  std::vector<uint64_t> calls;
  const auto record = [&](uint64_t number) {
    if (calls.size() == limit) return Fate::kills();
    calls.push_back(number);
    return Fate::made();
  };
  const std::optional<int> ended = run_watched(record, work);
  finished = ended == 0;
  if (!ended) return std::nullopt;
  return calls;
}

/// The order in which `work` syncs and renames files, in a child process: "sync rename sync".
/// Nothing if it failed, or if processes cannot be traced here.
inline std::optional<std::string> order_of_syncs(const std::function<void()>& work) {
  const std::map<uint64_t, std::string> words = {
      {SYS_fsync, "sync"},    {SYS_fdatasync, "sync"}, {SYS_syncfs, "sync-all"},
      {SYS_rename, "rename"}, {SYS_link, "link"},      {SYS_symlink, "symlink"}};
  std::string order;
  const auto record = [&](uint64_t number) {
    const auto word = words.find(number);
    if (word != words.end()) order += (order.empty() ? "" : " ") + word->second;
    return Fate::made();
  };
  if (run_watched(record, work) != 0) return std::nullopt;
  return order;
}

/// Whether the last bytes written by `work` are synced when it first calls crash_point(`point`), in
/// a child process. Nothing if processes cannot be traced here.
inline std::optional<bool> is_synced_at(std::string_view point, const std::function<void()>& work) {
  constexpr int kThere = 7;
  bool synced = false;
  const auto watch = [&](uint64_t number) {
    if (number == SYS_write) synced = false;
    if (number == SYS_fsync || number == SYS_fdatasync) synced = true;
    return Fate::made();
  };
  const std::optional<int> ended = run_watched(watch, [&] {
    on_crash_point([&](std::string_view here) {
      if (here == point) ::_exit(kThere);
    });
    work();
  });
  if (!ended) return std::nullopt;
  return ended == kThere && synced;
}

}  // namespace dlflow::test
