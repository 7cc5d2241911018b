#include "engine/container/outside.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"

namespace dlflow {

Signals::Signals(int flags) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGCHLD);
  for (const int number : kPassedIn) ::sigaddset(&set, number);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  pipe_.reset(::signalfd(-1, &set, SFD_CLOEXEC | flags));
  if (!pipe_) throw_errno("cannot watch signals", errno);
}

std::optional<int> Signals::next() const {
  signalfd_siginfo info{};
  while (::read(pipe_.get(), &info, sizeof info) != ssize_t(sizeof info)) {
    if (errno == EAGAIN) return std::nullopt;
  }
  return int(info.ssi_signo);
}

ControlPipe::ControlPipe(const Rendezvous& meeting) {
  constexpr char kGreeting = 0;
  const std::string path = meeting.control().string();
  if (::mkfifo(path.c_str(), 0600) != 0) throw_errno("cannot make " + path, errno);
  pipe_.reset(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!pipe_) throw_errno("cannot open " + path, errno);
  tell(kGreeting);
}

void ControlPipe::tell(char byte) const {
  [[maybe_unused]] const auto written = ::write(pipe_.get(), &byte, 1);
}

ExitStatus stay_beside(pid_t runtime, const Signals& signals,
                       const std::optional<ControlPipe>& pipe) {
  while (true) {
    const int number = *signals.next();
    if (number != SIGCHLD && pipe) {
      pipe->tell(char(number));
    } else if (number != SIGCHLD) {
      ::kill(runtime, number);
    } else if (const auto exit = poll_exit(runtime)) {
      return *exit;
    }
  }
}

}  // namespace dlflow
