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

struct Request {
  uint64_t token = 0;
  int pass = 1;
  std::optional<std::string> gpus;
  std::filesystem::path attempt;
  std::vector<FileDescriptor> locks;  ///< of its GPUs
  bool is_alone = false;              ///< no other worker was busy
};

/// Returns nothing when the other end is closed.
std::optional<Request> receive(int socket) {
  std::array<char, kMaxPacket + 1> packet;
  std::vector<FileDescriptor> locks;
  const ssize_t got = receive_packet(socket, packet, locks, 0);
  LaunchHeader header;
  if (got <= ssize_t(sizeof header)) return std::nullopt;
  std::memcpy(&header, packet.data(), sizeof header);
  const std::string rest(packet.data() + sizeof header, size_t(got) - sizeof header - 1);
  const size_t gpus_length = header.gpus_length < 0 ? 0 : size_t(header.gpus_length);
  Request request{header.token,     header.pass,
                  std::nullopt,     rest.substr(gpus_length),
                  std::move(locks), packet[size_t(got) - 1] != 0};
  if (header.gpus_length >= 0) request.gpus = rest.substr(0, gpus_length);
  return request;
}

class Worker {
 public:
  explicit Worker(const WorkerChannels& channels) : channels_(channels) {}

  Supervision supervise(Request& request);

  /// Tells the launcher that this worker is free; if the launcher is gone, syncs instead.
  void finish(uint64_t token, Supervision how);

  /// Syncs the ends of passes that were kept. Returns `exit_status`.
  int end(int exit_status) {
    if (ends_) ends_->sync();
    return exit_status;
  }

 private:
  WorkerChannels channels_;
  std::filesystem::path run_directory_;
  std::optional<EndsLog> ends_;
};

Supervision Worker::supervise(Request& request) {
  SupervisorOptions options;
  options.token = request.token;
  options.gpus = request.gpus;
  options.keep_end = [&](const auto& run_directory, const JobEvent& end) {
    if (!ends_) ends_.emplace(run_directory, channels_.launcher);
    run_directory_ = run_directory;
    ends_->append(end);
    if (!request.is_alone) return;  // the launcher syncs it together with others
    ends_->sync();
    options.notify(Notice::Recorded);
  };
  options.notify = [&](Notice notice) {
    if (notice == Notice::ProgramEnded) request.locks.clear();
    const auto kind = notice == Notice::Recorded ? NewsKind::Recorded : NewsKind::ProgramEnded;
    const LauncherNews news{request.token, kind, 0};
    ::send(channels_.news, &news, sizeof news,
           MSG_DONTWAIT | MSG_NOSIGNAL);  // optional: the engine also polls
  };
  const Supervision how = dlflow::supervise(request.attempt, request.pass, options);
  return how == Supervision::Kept && request.is_alone ? Supervision::Recorded : how;
}

void Worker::finish(uint64_t token, Supervision how) {
  const bool kept = how == Supervision::Kept;
  const Finished finished{::getpid(), kept, token};
  std::string packet(reinterpret_cast<const char*>(&finished), sizeof finished);
  if (kept) packet += run_directory_.native();
  const ssize_t sent = ::send(channels_.finished, packet.data(), packet.size(), MSG_NOSIGNAL);
  if (sent < 0 && ends_) ends_->sync();
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
    if (how == Supervision::NotOurs) return worker.end(kExitNotOurs);
    if (how == Supervision::Unrecorded) return worker.end(kExitUnrecorded);
    if (has_children()) return worker.end(kExitRecorded);
    worker.finish(request->token, how);  // if it fails, receive() ends
    crash_point("finished");
  }
  return kExitRecorded;
}

}  // namespace dlflow
