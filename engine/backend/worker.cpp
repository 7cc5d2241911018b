#include "engine/backend/worker.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "base/handle.h"
#include "engine/backend/launcher_protocol.h"
#include "engine/backend/packet.h"
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

struct Request {
  uint64_t token = 0;
  int pass = 1;
  std::optional<std::string> gpus;
  std::filesystem::path attempt;
  std::vector<FileDescriptor> locks;  ///< hold its GPUs
};

/// Nothing when the other end is closed.
std::optional<Request> receive(int socket) {
  std::array<char, kMaxPacket> packet;
  std::vector<FileDescriptor> locks;
  const ssize_t got = receive_packet(socket, packet, locks, 0);
  LaunchHeader header;
  if (got < ssize_t(sizeof header)) return std::nullopt;
  std::memcpy(&header, packet.data(), sizeof header);
  const std::string rest(packet.data() + sizeof header, size_t(got) - sizeof header);
  const size_t gpus_length = header.gpus_length < 0 ? 0 : size_t(header.gpus_length);
  Request request{header.token, header.pass, std::nullopt, rest.substr(gpus_length),
                  std::move(locks)};
  if (header.gpus_length >= 0) request.gpus = rest.substr(0, gpus_length);
  return request;
}

Supervision supervise(Request& request, int reports) {
  SupervisorOptions options;
  options.token = request.token;
  options.gpus = request.gpus;
  options.notify = [&](Notice notice) {
    if (notice == Notice::ProgramEnded) request.locks.clear();
    const auto kind = notice == Notice::Recorded ? ReportKind::Recorded : ReportKind::ProgramEnded;
    const LauncherReport report{request.token, kind, 0};
    ::send(reports, &report, sizeof report,
           MSG_DONTWAIT | MSG_NOSIGNAL);  // the engine looks anyway
  };
  return supervise(request.attempt, request.pass, options);
}

/// Whether something is left that a program of ours started: it would come to us as a child.
bool has_children() {
  pid_t ended = 0;
  do {
    ended = ::waitpid(-1, nullptr, WNOHANG);
  } while (ended > 0 || (ended < 0 && errno == EINTR));
  return ended == 0;
}

}  // namespace

int worker_main(const WorkerChannels& channels) {
  while (auto request = receive(channels.requests)) {
    crash_point("taken");
    const Supervision how = supervise(*request, channels.reports);
    if (how != Supervision::Recorded || has_children()) return exit_status(how);
    const Finished finished{::getpid(), request->token};
    ::send(channels.finished, &finished, sizeof finished, MSG_NOSIGNAL);  // or receive() ends
    crash_point("finished");
  }
  return kExitRecorded;
}

}  // namespace dlflow
