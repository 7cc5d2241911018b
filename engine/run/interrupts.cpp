#include "engine/run/interrupts.h"

#include <sys/signalfd.h>

#include <cerrno>

#include "base/error.h"

namespace dlflow {

Interrupts::Interrupts() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
  file_.reset(::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!file_) throw_errno("cannot listen for signals", errno);
}

Interrupts::~Interrupts() {
  take();  // late signals were meant for the run as well
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int Interrupts::take() {
  int count = 0;
  signalfd_siginfo info{};
  while (::read(file_.get(), &info, sizeof info) == ssize_t(sizeof info)) ++count;
  return count;
}

}  // namespace dlflow
