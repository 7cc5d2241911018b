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

/// The engine's end of a launcher, which is started with the first request. Sending never waits
/// for it, since it may be waiting for us.
class LauncherClient {
 public:
  ~LauncherClient() { stop(); }

  /// What to start, and where what it prints goes (nothing but messages of crashes).
  void set_program(std::filesystem::path program, std::filesystem::path log);

  /// Asks for a supervisor. It gets copies of `locks`, which hold its GPUs, and keeps them until
  /// its program has ended. Throws Error if the launcher cannot be started.
  void launch(uint64_t token, int pass, const std::filesystem::path& attempt_directory,
              const std::optional<std::string>& gpus, const std::vector<int>& locks);

  /// All news that has come. Also sends what the socket had no room for.
  std::vector<LauncherNews> receive();

  /// To be polled for reading; -1 if nothing was asked for yet.
  int descriptor() const { return socket_.get(); }
  bool has_unsent() const { return !unsent_.empty(); }

  /// Whether the launcher was killed. It is then forgotten, and the next launch() starts another.
  bool has_died();

 private:
  void start_launcher();
  void send_pending();
  void stop();

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
