#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/handle.h"
#include "base/mpi.h"
#include "base/parse_json.h"
#include "base/process.h"
#include "base/secret_file.h"
#include "engine/container/container_environment.h"
#include "engine/container/container_job.h"
#include "engine/container/container_run.h"
#include "engine/container/outside.h"
#include "engine/ranks/save_request.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr int kNoProgram = 127;  // as in shells

bool has_program(const std::string& name, const std::string& path) {
  if (name.find('/') == name.npos) return find_program(name, path).has_value();
  return ::access(name.c_str(), X_OK) == 0;
}

/// The first command whose program exists.
const std::vector<std::string>& chosen(const ContainerRequest& request) {
  const auto found = request.environment.find("PATH");
  const std::string path = found == request.environment.end() ? "" : found->second;
  for (const auto& command : request.commands) {
    if (has_program(command.front(), path)) return command;
  }
  const std::string& wanted = request.commands.back().front();
  const bool is_path = wanted.find('/') != wanted.npos;
  throw Error(Errc::NotFound, "image '" + request.image + "' has no program " + wanted +
                                  (is_path ? "" : " in its PATH, " + path) +
                                  "; use an image that has it, or correct `run:`");
}

Command command_of(const ContainerRequest& request) {
  auto environment = read_secrets(request.secrets_file, request.secrets);
  environment.insert(request.environment.begin(), request.environment.end());
  if (request.adds_ranks) add_passed_on(environment, current_environment());
  if (request.rank_plan) add_rank(environment, *request.rank_plan);
  Command command;
  command.argv = chosen(request);
  for (const auto& [name, value] : environment) command.environment.push_back(name + "=" + value);
  command.directory = request.directory;
  command.own_group = true;
  command.dies_with_parent = true;
  if (request.asked_by != request.asks_by) command.ignored_signals = {request.asked_by};
  return command;
}

/// Messages from the process outside, if there is one; a runtime that starts the ranks itself has
/// none.
class Control {
 public:
  /// Throws Error if that process has ended.
  explicit Control(const fs::path& path) {
    pipe_.reset(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!pipe_ && errno == ENOENT) return;
    char greeting = 0;
    if (!pipe_ || ::read(pipe_.get(), &greeting, 1) != 1) {
      throw Error(Errc::Unavailable, "the process that started this container is gone");
    }
  }

  int descriptor() const { return pipe_.get(); }

  /// Whether signals arrive through the pipe; those sent to this process are then copies.
  bool is_open() const { return bool(pipe_); }

  /// The next signal for the program; SIGKILL if the sender no longer exists.
  std::optional<int> next() {
    char number = 0;
    const ssize_t got = ::read(pipe_.get(), &number, 1);
    if (got == 1) return number;
    if (got < 0) return std::nullopt;
    pipe_.reset();
    return SIGKILL;
  }

 private:
  FileDescriptor pipe_;
};

/// \param wanted  see RankPlan for `asks_by` and `asked_by`.
int run_program(const Command& command, const ContainerRequest& wanted, Control& control,
                const Signals& signals) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t program = start(command);
  std::optional<SaveRequest> request;
  const auto pass_on = [&](int number) {
    const bool asks = wanted.asks_by != 0 && number == wanted.asked_by;
    if (!asks || (request && number == SIGTERM)) {  // a second SIGTERM ends the program
      ::kill(-program, number);
      return;
    }
    if (request) return;
    request.emplace(wanted.asks_by, [](const std::string& warning) {
      std::fprintf(stderr, "%s\n", warning.c_str());
    });
  };
  std::optional<ExitStatus> exit;
  while (!(exit = poll_exit(program))) {
    if (request) request->look(program);
    pollfd sources[] = {{signals.descriptor(), POLLIN, 0}, {control.descriptor(), POLLIN, 0}};
    ::poll(sources, 2, request ? int(kAskAgain.count()) : -1);
    while (const auto number = signals.next()) {
      if (*number != SIGCHLD && !control.is_open()) pass_on(*number);
    }
    if (sources[1].revents == 0) continue;
    if (const auto number = control.next()) pass_on(*number);
  }
  ::kill(-program, SIGKILL);  // processes left behind
  return exit->code;
}

}  // namespace

int container_exec(const fs::path& folder) {
  const Rendezvous meeting{folder};
  int status = kNoProgram;
  std::string rank = "0";
  try {
    const Signals signals(SFD_NONBLOCK);
    Control control(meeting.control());
    const ContainerRequest request =
        container_request_from_json(parse_json(read_file(meeting.request())));
    if (request.adds_ranks) {
      const char* const number = std::getenv(kSrun.rank);
      rank = number == nullptr ? "0" : number;
    }
    status = run_program(command_of(request), request, control, signals);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
  }
  try {
    write_file_atomic(meeting.status(rank), std::to_string(status) + "\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
  }
  return status;
}

}  // namespace dlflow
