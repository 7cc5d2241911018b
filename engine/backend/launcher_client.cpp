#include "engine/backend/launcher_client.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/packet.h"
#include "base/process.h"

namespace dlflow {

void LauncherClient::set_program(std::filesystem::path program, std::filesystem::path log) {
  program_ = std::move(program);
  log_ = std::move(log);
}

void LauncherClient::start_launcher() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw_errno("cannot create a socket for the launcher", errno);
  }
  FileDescriptor ours(ends[0]);
  const FileDescriptor theirs(ends[1]);
  ::fcntl(theirs.get(), F_SETFD, 0);  // inherited only by the launcher
  pid_ = start({.argv = {program_.string(), "local-launcher", std::to_string(theirs.get())},
                .environment = current_environment(),
                .standard_output = log_,
                .standard_error = log_,
                .closes_descriptors = true,
                .kept_descriptor = theirs.get()});
  socket_ = std::move(ours);
}

void LauncherClient::launch(uint64_t token, int pass,
                            const std::filesystem::path& attempt_directory,
                            const std::optional<std::string>& gpus, const std::vector<int>& locks) {
  if (pid_ < 0) start_launcher();
  LaunchHeader header;
  header.token = token;
  header.pass = pass;
  if (gpus) header.gpus_length = int32_t(gpus->size());
  Packet packet{{reinterpret_cast<const char*>(&header), sizeof header}, {}};
  packet.bytes += gpus.value_or("") + attempt_directory.string();
  for (const int lock : locks) packet.locks.emplace_back(::fcntl(lock, F_DUPFD_CLOEXEC, 0));
  if (packet.bytes.size() > kMaxPacket) {
    throw Error(Errc::InvalidInput, attempt_directory.string() + ": the path is too long");
  }
  unsent_.push_back(std::move(packet));
  send_pending();
}

void LauncherClient::send_pending() {
  while (!unsent_.empty()) {
    const Packet& packet = unsent_.front();
    std::vector<int> locks;
    for (const FileDescriptor& lock : packet.locks) locks.push_back(lock.get());
    if (send_packet(socket_.get(), packet.bytes, locks, MSG_DONTWAIT) < 0) {
      return;  // full, or the launcher is gone: see has_died()
    }
    unsent_.pop_front();
  }
}

std::vector<LauncherNews> LauncherClient::receive() {
  std::vector<LauncherNews> all;
  if (pid_ < 0) return all;
  send_pending();
  while (true) {
    LauncherNews news;
    const ssize_t got = ::recv(socket_.get(), &news, sizeof news, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got != ssize_t(sizeof news)) return all;
    all.push_back(news);
  }
}

bool LauncherClient::has_died() {
  if (pid_ < 0 || !poll_exit(pid_)) return false;
  pid_ = -1;
  socket_.reset();
  unsent_.clear();
  return true;
}

LauncherClient::~LauncherClient() {
  socket_.reset();
  if (pid_ >= 0) wait_for(pid_);
}

}  // namespace dlflow
