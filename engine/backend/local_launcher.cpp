#include "engine/backend/local_launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "base/handle.h"
#include "base/packet.h"
#include "engine/backend/group_sync.h"
#include "engine/backend/launcher_protocol.h"
#include "engine/backend/worker.h"

namespace dlflow {
namespace {

/// The number of workers that may be idle. A newly forked worker makes a step of milliseconds a
/// tenth slower, since its memory is copied on first write.
constexpr size_t kMaxIdle = 64;

class LocalLauncher {
 public:
  explicit LocalLauncher(int socket_fd) : socket_(socket_fd) {}

  int run();

 private:
  struct Worker {
    FileDescriptor requests;
    uint64_t token = 0;  ///< of its pass; 0: none
  };
  using Workers = std::map<pid_t, Worker>;

  bool open();
  bool take_request();
  void launch(uint64_t token, std::string_view packet);
  bool hand_to_idle(uint64_t token, std::string_view packet);
  bool hand_to(const Worker& worker, std::string_view packet) const;
  Workers::iterator start_worker();
  [[noreturn]] void become_worker(FileDescriptor requests);
  void take_finished();
  void end_pass(const Finished& finished, std::string_view run_directory);
  bool is_any_busy() const;
  void tell_synced();
  void end();
  void tell_ended();
  void tell(const LauncherNews& news) const;

  FileDescriptor socket_;
  FileDescriptor children_;  // signalfd, readable when a child has ended
  FileDescriptor finished_;  // receives a Finished from workers that become free
  FileDescriptor finished_writer_;
  sigset_t mask_before_{};
  std::vector<FileDescriptor> locks_;  // of the request being handed over
  std::unique_ptr<GroupSync> sync_;    // created with the first kept end
  Workers workers_;
  std::vector<pid_t> idle_;  // most recently busy last: its memory is warm
};

/// Starts a session of its own, so that Ctrl-C in the terminal reaches only the engine.
bool LocalLauncher::open() {
  ::setsid();
  ::fcntl(socket_.get(), F_SETFD, FD_CLOEXEC);
  sigset_t ended;
  sigemptyset(&ended);
  sigaddset(&ended, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &ended, &mask_before_);
  children_.reset(::signalfd(-1, &ended, SFD_NONBLOCK | SFD_CLOEXEC));
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return false;
  finished_.reset(ends[0]);
  finished_writer_.reset(ends[1]);
  return bool(children_);
}

int LocalLauncher::run() {
  if (!open()) return 1;
  while (true) {
    std::array<pollfd, 4> waiting = {
        pollfd{socket_.get(), POLLIN, 0}, pollfd{children_.get(), POLLIN, 0},
        pollfd{finished_.get(), POLLIN, 0}, pollfd{sync_ ? sync_->descriptor() : -1, POLLIN, 0}};
    if (::poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) return 1;
    if (waiting[3].revents != 0) tell_synced();
    if (waiting[2].revents != 0) take_finished();
    if (waiting[1].revents != 0) tell_ended();
    if (waiting[0].revents != 0 && !take_request()) break;
  }
  end();
  return 0;
}

/// Workers that have not reported an end by now cannot do so, and sync it themselves.
void LocalLauncher::end() {
  ::shutdown(finished_.get(), SHUT_RD);
  take_finished();
  sync_.reset();
}

/// Returns false when the engine has closed its end.
bool LocalLauncher::take_request() {
  std::array<char, kMaxPacket> packet;
  const ssize_t got = receive_packet(socket_.get(), packet, locks_, MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  LaunchHeader header;
  if (size_t(got) < sizeof header) return false;  // 0: closed
  std::memcpy(&header, packet.data(), sizeof header);
  const char is_alone = is_any_busy() ? 0 : 1;
  launch(header.token, std::string(packet.data(), size_t(got)) + is_alone);
  locks_.clear();
  return true;
}

void LocalLauncher::launch(uint64_t token, std::string_view packet) {
  if (hand_to_idle(token, packet)) return;
  const auto worker = start_worker();
  if (worker == workers_.end()) {
    tell({token, NewsKind::NotStarted, errno});
    return;
  }
  worker->second.token = token;
  hand_to(worker->second, packet);  // if it has died, tell_ended() reports it
}

bool LocalLauncher::hand_to_idle(uint64_t token, std::string_view packet) {
  while (!idle_.empty()) {
    Worker& worker = workers_.at(idle_.back());
    idle_.pop_back();
    if (!hand_to(worker, packet)) continue;  // it was just killed
    worker.token = token;
    crash_point("hand-over");
    return true;
  }
  return false;
}

bool LocalLauncher::hand_to(const Worker& worker, std::string_view packet) const {
  std::vector<int> locks;
  for (const FileDescriptor& lock : locks_) locks.push_back(lock.get());
  return send_packet(worker.requests.get(), packet, locks, 0) >= 0;
}

/// Returns end() if no more processes or descriptors are available; errno has the reason.
LocalLauncher::Workers::iterator LocalLauncher::start_worker() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return workers_.end();
  }
  FileDescriptor ours(ends[0]);
  FileDescriptor theirs(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    ours.reset();
    become_worker(std::move(theirs));
  }
  if (child < 0) return workers_.end();
  return workers_.insert_or_assign(child, Worker{std::move(ours)}).first;
}

/// Runs in the child. Closes the launcher's descriptors: another worker's socket, kept open here,
/// would hide the launcher's end from that worker, and a lock would hold another job's GPU.
void LocalLauncher::become_worker(FileDescriptor requests) {
  const pid_t launcher = ::getppid();
  ::setsid();
  children_.reset();
  finished_.reset();
  workers_.clear();
  locks_.clear();
  ::sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
  ::_exit(worker_main({requests.get(), finished_writer_.get(), socket_.get(), launcher}));
}

void LocalLauncher::take_finished() {
  std::array<char, kMaxPacket> packet;
  while (true) {
    Finished finished;
    const ssize_t got = ::recv(finished_.get(), packet.data(), packet.size(), MSG_DONTWAIT);
    if (got < ssize_t(sizeof finished)) return;
    std::memcpy(&finished, packet.data(), sizeof finished);
    end_pass(finished, {packet.data() + sizeof finished, size_t(got) - sizeof finished});
  }
}

bool LocalLauncher::is_any_busy() const {
  return std::ranges::any_of(workers_, [](const auto& worker) { return worker.second.token != 0; });
}

void LocalLauncher::end_pass(const Finished& finished, std::string_view run_directory) {
  const auto worker = workers_.find(finished.worker);
  if (worker == workers_.end() || worker->second.token != finished.token) return;
  worker->second.token = 0;
  if (finished.kept) {
    if (!sync_) sync_ = std::make_unique<GroupSync>(run_directory);
    sync_->add(finished.token, !is_any_busy());
  } else {
    tell({finished.token, NewsKind::Ended, 0});
  }
  if (idle_.size() < kMaxIdle) {
    idle_.push_back(finished.worker);
  } else {
    workers_.erase(worker);  // closes its socket, which ends the worker
  }
}

void LocalLauncher::tell_synced() {
  for (const uint64_t token : sync_->take()) tell({token, NewsKind::Ended, 0});
}

void LocalLauncher::tell_ended() {
  signalfd_siginfo info{};
  while (::read(children_.get(), &info, sizeof info) > 0) {
  }
  int status = 0;
  while (true) {
    const pid_t child = ::waitpid(-1, &status, WNOHANG);
    if (child < 0 && errno == EINTR) continue;
    if (child <= 0) return;
    const auto worker = workers_.find(child);
    if (worker == workers_.end()) continue;
    if (worker->second.token != 0) tell({worker->second.token, NewsKind::Ended, status});
    workers_.erase(worker);
    std::erase(idle_, child);
  }
}

/// If the engine is gone, the news is dropped.
void LocalLauncher::tell(const LauncherNews& news) const {
  while (::send(socket_.get(), &news, sizeof news, MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

}  // namespace

int local_launcher_main(int socket_fd) { return LocalLauncher(socket_fd).run(); }

}  // namespace dlflow
