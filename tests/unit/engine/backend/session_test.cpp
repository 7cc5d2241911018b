#include "engine/backend/session.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/handle.h"
#include "tests/support/catch.h"

using namespace dlflow;

namespace {

/// A process whose session's leader has ended. This process becomes its parent.
struct LeftBehind {
  ProcessIdentity leader;
  pid_t pid = -1;

  LeftBehind() {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    int go[2];
    REQUIRE(::pipe(go) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::setsid();
      const pid_t left = ::fork();
      if (left == 0) {
        while (true) ::pause();
      }
      [[maybe_unused]] auto written = ::write(ends[1], &left, sizeof left);
      char word = 0;
      [[maybe_unused]] auto got = ::read(go[0], &word, 1);
      ::_exit(0);
    }
    REQUIRE(::read(ends[0], &pid, sizeof pid) == sizeof pid);
    leader = identify(child).value();
    REQUIRE(::write(go[1], "x", 1) == 1);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    for (const int end : {ends[0], ends[1], go[0], go[1]}) ::close(end);
  }
  LeftBehind(const LeftBehind&) = delete;
  LeftBehind& operator=(const LeftBehind&) = delete;
  ~LeftBehind() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  }

  /// Signals are sent before end_left_programs() returns.
  bool was_killed() const {
    const auto status = read_file_if_exists("/proc/" + std::to_string(pid) + "/status");
    if (!status) return true;
    const bool pending = status->find("SigPnd:\t0000000000000000") == std::string::npos ||
                         status->find("ShdPnd:\t0000000000000000") == std::string::npos;
    return pending || status->find("State:\tZ") != std::string::npos ||
           status->find("State:\tX") != std::string::npos;
  }
};

}  // namespace

TEST_CASE("the rest of a dead leader's session is killed", "[session]") {
  const LeftBehind left;
  end_left_programs(left.leader, "/nowhere/attempt-1");
  int status = 0;
  CHECK(::waitpid(left.pid, &status, 0) == left.pid);
  CHECK(WIFSIGNALED(status));
}

TEST_CASE("a program of a dead supervisor that made a session of its own is killed", "[session]") {
  const LeftBehind left;
  Command command;
  command.argv = {"setsid", "-w", "sleep", "60"};
  command.environment = {"PATH=/usr/bin:/bin", "DLFLOW_OUTPUTS=/run/a/attempt-1/pass-1/outputs"};
  const pid_t own = start(command);
  command.environment = {"PATH=/usr/bin:/bin", "DLFLOW_OUTPUTS=/run/a/attempt-10/pass-1/outputs"};
  const pid_t other = start(command);
  end_left_programs(left.leader, "/run/a/attempt-1");
  CHECK(wait_for(own).signal == SIGKILL);
  CHECK(::waitpid(other, nullptr, WNOHANG) == 0);
  ::kill(other, SIGKILL);
  wait_for(other);
}

TEST_CASE("a session of another machine, or of another boot, is left alone", "[session]") {
  const LeftBehind left;
  ProcessIdentity other = left.leader;
  SECTION("another host") { other.host = "elsewhere"; }
  SECTION("another boot") { other.boot_id = "earlier"; }
  SECTION("another leader") { other.pid = left.pid; }
  end_left_programs(other, "/nowhere/attempt-1");
  CHECK_FALSE(left.was_killed());
}
