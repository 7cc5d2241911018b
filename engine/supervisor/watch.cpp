#include "engine/supervisor/watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace dlflow {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

void signal_group(pid_t group, int signal) { ::kill(-group, signal); }

/// The children of this process now.
std::vector<pid_t> children() {
  const std::string self = std::to_string(::getpid());
  std::vector<pid_t> found;
  if (const auto list = read_file_if_exists("/proc/self/task/" + self + "/children")) {
    for (const std::string& word : split(trim(*list), ' ')) {
      if (!word.empty()) found.push_back(std::stoi(word));
    }
  }
  return found;
}

/// Kills what the program left behind: its group, and orphans that came to us because we are a
/// subreaper (ranks lead groups of their own).
void end_leftovers(pid_t group) {
  constexpr int kTries = 1000;
  signal_group(group, SIGKILL);
  for (int i = 0; i < kTries; ++i) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    const std::vector<pid_t> left = children();
    if (left.empty()) return;
    for (const pid_t orphan : left) ::kill(orphan, SIGKILL);
    ::usleep(1000);
  }
}

}  // namespace

Watcher::Watcher() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGCHLD}) ::sigaddset(&set, number);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) throw_errno("cannot watch signals", errno);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

Watcher::Requests Watcher::read_signals(milliseconds timeout) {
  pollfd descriptor{signals_.get(), POLLIN, 0};
  ::poll(&descriptor, 1, int(timeout.count()));
  Requests requests;
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == ssize_t(sizeof info)) {
    if (info.ssi_signo == SIGCHLD) {
      requests.children = true;
    } else {
      ++requests.stops;
    }
  }
  return requests;
}

bool Watcher::stop_requested() {
  stops_ += read_signals(milliseconds(0)).stops;
  return stops_ > 0;
}

Watched Watcher::watch(pid_t program, const WatchOptions& options) {
  Watched result;
  const auto began = steady_clock::now();
  std::optional<steady_clock::time_point> request_at;  // when it is asked because of its walltime
  if (options.walltime.count() > 0) request_at = began + options.walltime - options.grace;
  std::optional<steady_clock::time_point> kill_at;

  const auto ask = [&](StopCause cause) {
    result.cause = cause;
    signal_group(program, options.request_signal);
    kill_at = steady_clock::now() + options.grace;
  };
  const auto kill = [&] {
    result.killed = true;
    signal_group(program, SIGKILL);
    kill_at.reset();
  };
  if (stops_ > 0) ask(StopCause::Requested);

  while (true) {
    if (const auto exit = poll_exit(program)) {
      result.exit = *exit;
      break;
    }
    const auto now = steady_clock::now();
    if (kill_at && now >= *kill_at) kill();
    if (request_at && now >= *request_at && result.cause == StopCause::None) {
      ask(StopCause::Walltime);
    }
    auto next = now + milliseconds(60'000);
    if (kill_at) next = std::min(next, *kill_at);
    if (request_at && result.cause == StopCause::None) next = std::min(next, *request_at);
    const auto wait = std::chrono::ceil<milliseconds>(next - now);
    const int stops = read_signals(std::max(wait, milliseconds(0))).stops;
    stops_ += stops;
    if (stops == 0) continue;
    if (result.cause == StopCause::Requested) {
      kill();  // asked for the second time
    } else {
      ask(StopCause::Requested);
    }
  }
  end_leftovers(program);
  return result;
}

}  // namespace dlflow
