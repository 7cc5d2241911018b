#pragma once

#include <sys/types.h>

#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/handle.h"
#include "engine/backend/launcher_protocol.h"

namespace dlflow {

/// The engine's end of a launcher, which is started with the first request. Sending never blocks,
/// since the launcher may be blocked on us.
class LauncherClient {
 public:
  ~LauncherClient();

  /// Sets the program to start, and the file for its output (only messages of crashes).
  void set_program(std::filesystem::path program, std::filesystem::path log);

  /// Requests a supervisor. It gets copies of `locks`, which hold its GPUs, until its program has
  /// ended. Throws Error if the launcher cannot be started.
  void launch(uint64_t token, int pass, const std::filesystem::path& attempt_directory,
              const std::optional<std::string>& gpus, const std::vector<int>& locks);

  /// Returns all news received. Also sends packets for which the socket had no room.
  std::vector<LauncherNews> receive();

  /// For poll(), to read; -1 before the first request.
  int descriptor() const { return socket_.get(); }
  bool has_unsent() const { return !unsent_.empty(); }

  /// Whether the launcher was killed. If so, forgets it, and the next launch() starts another.
  bool has_died();

 private:
  void start_launcher();
  void send_pending();

  std::filesystem::path program_;
  std::filesystem::path log_;
  FileDescriptor socket_;
  pid_t pid_ = -1;
  struct Packet {
    std::string bytes;
    std::vector<FileDescriptor> locks;
  };
  std::deque<Packet> unsent_;
};

}  // namespace dlflow
