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
#include "base/packet.h"
#include "engine/backend/launcher_protocol.h"
#include "engine/plan/ends_log.h"
#include "engine/supervisor/supervisor.h"

namespace dlflow {
namespace {

int exit_status(Supervision supervision) {
  switch (supervision) {
    case Supervision::Recorded:
    case Supervision::Kept:
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
  std::vector<FileDescriptor> locks;  ///< of its GPUs
};

/// Returns nothing when the other end is closed.
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

class Worker {
 public:
  explicit Worker(const WorkerChannels& channels) : channels_(channels) {}

  Supervision supervise(Request& request);

  /// Tells the launcher that this worker is free; if the launcher is gone, syncs instead.
  void finish(uint64_t token, Supervision how);

  /// Syncs the ends of passes that were kept.
  void sync() {
    if (ends_) ends_->sync();
  }

 private:
  void keep_end(const std::filesystem::path& run_directory, const JobEvent& end);

  WorkerChannels channels_;
  std::filesystem::path run_directory_;
  std::optional<EndsLog> ends_;
};

void Worker::keep_end(const std::filesystem::path& run_directory, const JobEvent& end) {
  if (!ends_) ends_.emplace(run_directory, channels_.launcher);
  run_directory_ = run_directory;
  ends_->append(end);
}

Supervision Worker::supervise(Request& request) {
  SupervisorOptions options;
  options.token = request.token;
  options.gpus = request.gpus;
  options.keep_end = [this](const auto& run_directory, const JobEvent& end) {
    keep_end(run_directory, end);
  };
  options.notify = [&](Notice notice) {
    if (notice == Notice::ProgramEnded) request.locks.clear();
    const auto kind = notice == Notice::Recorded ? NewsKind::Recorded : NewsKind::ProgramEnded;
    const LauncherNews news{request.token, kind, 0};
    ::send(channels_.news, &news, sizeof news,
           MSG_DONTWAIT | MSG_NOSIGNAL);  // optional: the engine also polls
  };
  return dlflow::supervise(request.attempt, request.pass, options);
}

void Worker::finish(uint64_t token, Supervision how) {
  const bool kept = how == Supervision::Kept;
  const Finished finished{::getpid(), kept, token};
  std::string packet(reinterpret_cast<const char*>(&finished), sizeof finished);
  if (kept) packet += run_directory_.native();
  const ssize_t sent = ::send(channels_.finished, packet.data(), packet.size(), MSG_NOSIGNAL);
  if (sent < 0) sync();
}

/// Whether processes started by our programs remain: orphans become our children.
bool has_children() {
  pid_t ended = 0;
  do {
    ended = ::waitpid(-1, nullptr, WNOHANG);
  } while (ended > 0 || (ended < 0 && errno == EINTR));
  return ended == 0;
}

}  // namespace

int worker_main(const WorkerChannels& channels) {
  Worker worker(channels);
  while (auto request = receive(channels.requests)) {
    crash_point("taken");
    const Supervision how = worker.supervise(*request);
    const bool is_recorded = how == Supervision::Recorded || how == Supervision::Kept;
    if (!is_recorded || has_children()) {
      worker.sync();
      return exit_status(how);
    }
    worker.finish(request->token, how);  // if it fails, receive() ends
    crash_point("finished");
  }
  return kExitRecorded;
}

}  // namespace dlflow
