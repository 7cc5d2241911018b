#include "engine/backend/local_launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <string>

#include "base/handle.h"
#include "engine/backend/launcher_protocol.h"
#include "engine/supervisor/supervisor.h"

namespace dlflow {
namespace {

int exit_status(Supervision supervision) {
  switch (supervision) {
    case Supervision::Recorded:
      return kExitRecorded;
    case Supervision::NotOurs:
      return kExitNotOurs;
    case Supervision::Unrecorded:
      return kExitUnrecorded;
  }
  return kExitUnrecorded;
}

class Launcher {
 public:
  explicit Launcher(int socket_fd) : socket_(socket_fd) {}

  int run();

 private:
  bool open();
  bool take_request();
  void launch(const LaunchHeader& header, const std::string& gpus, const std::string& attempt);
  [[noreturn]] void become_supervisor(const LaunchHeader& header, const std::string& gpus,
                                      const std::string& attempt);
  void report_ended();
  void send(const Report& report, int flags) const;

  FileDescriptor socket_;
  FileDescriptor children_;  // readable when one has ended
  sigset_t mask_before_{};
  std::map<pid_t, uint64_t> tokens_;
};

/// A session of its own, so that Ctrl-C in the terminal reaches the engine only.
bool Launcher::open() {
  ::setsid();
  ::fcntl(socket_.get(), F_SETFD, FD_CLOEXEC);
  sigset_t ended;
  sigemptyset(&ended);
  sigaddset(&ended, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &ended, &mask_before_);
  children_.reset(::signalfd(-1, &ended, SFD_NONBLOCK | SFD_CLOEXEC));
  return bool(children_);
}

int Launcher::run() {
  if (!open()) return 1;
  while (true) {
    std::array<pollfd, 2> waiting = {pollfd{socket_.get(), POLLIN, 0},
                                     pollfd{children_.get(), POLLIN, 0}};
    if (::poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) return 1;
    if (waiting[1].revents != 0) report_ended();
    if (waiting[0].revents != 0 && !take_request()) return 0;
  }
}

/// False when the engine's end is closed.
bool Launcher::take_request() {
  std::array<char, kMaxPacket> packet{};
  const ssize_t got = ::recv(socket_.get(), packet.data(), packet.size(), MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  LaunchHeader header;
  if (size_t(got) < sizeof header) return false;  // 0: the end
  std::memcpy(&header, packet.data(), sizeof header);
  const std::string rest(packet.data() + sizeof header, size_t(got) - sizeof header);
  const size_t gpus_length = header.gpus_length < 0 ? 0 : size_t(header.gpus_length);
  launch(header, rest.substr(0, gpus_length), rest.substr(gpus_length));
  return true;
}

void Launcher::launch(const LaunchHeader& header, const std::string& gpus,
                      const std::string& attempt) {
  const pid_t child = ::fork();
  if (child == 0) become_supervisor(header, gpus, attempt);
  if (child < 0) {
    send({header.token, ReportKind::NotStarted, errno}, 0);
  } else {
    tokens_[child] = header.token;
  }
}

void Launcher::become_supervisor(const LaunchHeader& header, const std::string& gpus,
                                 const std::string& attempt) {
  ::setsid();
  children_.reset();
  ::sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
  if (header.gpus_length >= 0) ::setenv("CUDA_VISIBLE_DEVICES", gpus.c_str(), 1);
  SupervisorOptions options;
  options.notify = [&](Notice notice) {
    const auto kind = notice == Notice::Recorded ? ReportKind::Recorded : ReportKind::ProgramEnded;
    send({header.token, kind, 0}, MSG_DONTWAIT);  // the engine looks anyway
  };
  ::_exit(exit_status(supervise(attempt, header.pass, options)));
}

void Launcher::report_ended() {
  signalfd_siginfo info{};
  while (::read(children_.get(), &info, sizeof info) > 0) {
  }
  int status = 0;
  while (true) {
    const pid_t child = ::waitpid(-1, &status, WNOHANG);
    if (child <= 0) return;
    const auto token = tokens_.find(child);
    if (token == tokens_.end()) continue;
    send({token->second, ReportKind::Ended, status}, 0);
    tokens_.erase(token);
  }
}

/// An engine that is gone needs no report.
void Launcher::send(const Report& report, int flags) const {
  while (::send(socket_.get(), &report, sizeof report, flags | MSG_NOSIGNAL) < 0 &&
         errno == EINTR) {
  }
}

}  // namespace

int local_launcher_main(int socket_fd) { return Launcher(socket_fd).run(); }

}  // namespace dlflow
