#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "engine/container/container_job.h"
#include "engine/container/container_run.h"
#include "engine/container/outside.h"
#include "tests/support/catch.h"
#include "tests/support/in_child.h"
#include "tests/support/temp_dir.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using Catch::StartsWith;

/// The inside of a container, as a separate process; the test is outside.
class Inside {
 public:
  ~Inside() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    wait_for(pid_);
  }

  Rendezvous meeting() const { return {folder_.path()}; }
  fs::path file(const std::string& name) const { return folder_.path() / name; }

  /// Writes the request for container_exec(), which runs in this folder.
  void ask(ContainerRequest request) const {
    request.image = "box";
    request.directory = folder_.path();
    write_file_atomic(meeting().request(), to_json(request).dump());
  }
  void ask(const std::string& script) const {
    ContainerRequest request;
    request.commands = {{"/bin/sh", "-c", script}};
    ask(request);
  }

  void begin(const std::optional<std::string>& rank = std::nullopt) {
    std::fflush(nullptr);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ > 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (std::freopen(file("errors").c_str(), "w", stderr) == nullptr) ::_exit(99);
    if (rank) ::setenv("SLURM_PROCID", rank->c_str(), 1);
    ::setenv("PMIX_RANK", "7", 1);
    ::setenv("HOME", "/outside", 1);
    const int status = container_exec(folder_.path());
    std::fflush(stderr);
    ::_exit(status);
  }

  int end() { return wait_for(std::exchange(pid_, -1)).code; }
  int run() {
    begin();
    return end();
  }

  /// Waits until the program has written `name`.
  void wait_for_file(const std::string& name) const {
    while (!fs::exists(file(name))) ::usleep(1000);
  }

  pid_t pid() const { return pid_; }

 private:
  test::TempDir folder_;
  pid_t pid_ = -1;
};

}  // namespace

TEST_CASE("a program in a container has only the environment that it was given", "[container]") {
  Inside inside;
  ContainerRequest request;
  request.commands = {{"/usr/bin/env"}};
  request.environment = {{"A", "1"}, {"B", ""}};
  request.commands = {{"/bin/sh", "-c", "/usr/bin/env >env; /bin/pwd >pwd; exit 3"}};
  inside.ask(request);
  CHECK(inside.run() == 3);
  const std::string environment = read_file(inside.file("env"));
  CHECK_THAT(environment, Contains("A=1\n") && Contains("B=\n"));
  CHECK_THAT(environment, !Contains("PMIX_RANK") && !Contains("HOME=/outside"));
  CHECK(read_file(inside.file("pwd")) == fs::canonical(inside.file(".")).string() + "\n");
  CHECK(read_file(inside.meeting().status("0")) == "3\n");
}

TEST_CASE("a rank in a container has its number, and records its end under it", "[container]") {
  Inside inside;
  ContainerRequest request;
  request.adds_ranks = true;
  request.rank_plan.emplace();
  request.rank_plan->ranks = 9;
  request.rank_plan->nodes = {{"n", 9}};
  request.environment = {{"A", "1"}};
  request.commands = {{"/bin/sh", "-c", "/usr/bin/env >env"}};
  inside.ask(request);
  inside.begin("5");
  CHECK(inside.end() == 0);
  CHECK_THAT(read_file(inside.file("env")),
             Contains("PMIX_RANK=7\n") && Contains("A=1\n") && Contains("\nRANK=7\n") &&
                 Contains("\nWORLD_SIZE=9\n") && !Contains("HOME=/outside"));
  CHECK(read_file(inside.meeting().status("5")) == "0\n");
}

TEST_CASE("a rank without a number is the first", "[container]") {
  Inside inside;
  ContainerRequest request;
  request.adds_ranks = true;
  request.commands = {{"/bin/sh", "-c", "exit 1"}};
  inside.ask(request);
  CHECK(inside.run() == 1);
  CHECK(read_file(inside.meeting().status("0")) == "1\n");
}

TEST_CASE("the first command whose program is in the image is run", "[container]") {
  Inside inside;
  ContainerRequest request;
  request.environment = {{"PATH", inside.file("bin").string()}};
  make_directories(inside.file("bin"));
  fs::create_symlink("/bin/sh", inside.file("bin/shell"));
  write_file_atomic(inside.file("no-program"), "text");
  request.commands = {{"bash-9", "-c", "exit 1"},
                      {inside.file("no-program"), "-c", "exit 2"},
                      {"shell", "-c", "exit 3"},
                      {"/bin/sh", "-c", "exit 4"}};
  inside.ask(request);
  CHECK(inside.run() == 3);
}

TEST_CASE("a program that is not in the image is named", "[container]") {
  Inside inside;
  ContainerRequest request;
  request.environment = {{"PATH", "/no/bin"}};
  SECTION("by its name") {
    request.commands = {{"python9"}};
    inside.ask(request);
    CHECK(inside.run() == 127);
    CHECK_THAT(read_file(inside.file("errors")),
               StartsWith("error: image 'box' has no program python9 in its PATH, /no/bin; "));
  }
  SECTION("by its path") {
    request.commands = {{"/no/python9"}};
    inside.ask(request);
    CHECK(inside.run() == 127);
    CHECK_THAT(read_file(inside.file("errors")),
               StartsWith("error: image 'box' has no program /no/python9; "));
  }
  CHECK(read_file(inside.meeting().status("0")) == "127\n");
}

TEST_CASE("signals enter a container through the pipe, as one byte each", "[container]") {
  Inside inside;
  const ControlPipe pipe(inside.meeting());
  CHECK((fs::status(inside.meeting().control()).permissions() & fs::perms::all) ==
        (fs::perms::owner_read | fs::perms::owner_write));
  inside.ask(
      "trap 'echo >again' USR1; trap 'exit 75' TERM; echo >up; while :; do /bin/sleep 0.01; done");
  inside.begin();
  inside.wait_for_file("up");
  ::kill(inside.pid(), SIGTERM);  // the runtime's copy is ignored: the pipe counts
  pipe.tell(SIGUSR1);
  inside.wait_for_file("again");
  pipe.tell(SIGTERM);
  CHECK(inside.end() == 75);
  CHECK(read_file(inside.meeting().status("0")) == "75\n");
}

TEST_CASE(
    "a rank in a container that saves on SIGTERM gets SIGTERM if its launcher passes on SIGUSR1",
    "[container]") {
  Inside inside;
  ContainerRequest request;
  request.asks_by = SIGTERM;
  request.asked_by = SIGUSR1;
  request.commands = {
      {"/bin/sh", "-c", "trap 'exit 7' TERM; : >ready; while :; do sleep 0.02; done"}};
  inside.ask(request);
  inside.begin();
  inside.wait_for_file("ready");
  ::kill(inside.pid(), SIGUSR1);
  CHECK(inside.end() == 7);
}

TEST_CASE("without a pipe, signals to the process inside go to its program", "[container]") {
  Inside inside;
  inside.ask("trap 'exit 75' TERM; echo >up; while :; do /bin/sleep 0.01; done");
  inside.begin();
  inside.wait_for_file("up");
  ::kill(inside.pid(), SIGTERM);
  CHECK(inside.end() == 75);
}

TEST_CASE("a program ends when the container's outer process is gone", "[container]") {
  Inside inside;
  inside.ask("trap '' TERM; echo >up; while :; do /bin/sleep 0.01; done");
  SECTION("while it runs") {
    std::optional<ControlPipe> pipe(inside.meeting());
    // The child must not inherit an end of the pipe; it opens its own.
    inside.begin();
    inside.wait_for_file("up");
    pipe->tell(SIGKILL);
    CHECK(inside.end() == 128 + SIGKILL);
    CHECK(read_file(inside.meeting().status("0")) == "137\n");
  }
  SECTION("before it began") {
    { const ControlPipe pipe(inside.meeting()); }
    CHECK(inside.run() == 127);
    CHECK_THAT(read_file(inside.file("errors")),
               Contains("the process that started this container is gone"));
    CHECK_FALSE(fs::exists(inside.file("up")));
  }
}

TEST_CASE("processes that a program leaves behind end with it", "[container]") {
  Inside inside;
  inside.ask("/bin/sleep 600 & echo $! >left; exit 0");
  CHECK(inside.run() == 0);
  const pid_t left = std::atoi(read_file(inside.file("left")).c_str());
  REQUIRE(left > 0);
  // It was killed; whether its parent has noticed does not matter.
  while (::kill(left, 0) == 0) {
    const std::string stat =
        read_file_if_exists("/proc/" + std::to_string(left) + "/stat").value_or("0 (x) Z");
    if (stat.find(") Z") != stat.npos) break;
    ::usleep(1000);
  }
}

TEST_CASE("an unreadable request is reported with a status", "[container]") {
  Inside inside;
  write_file_atomic(inside.meeting().request(), "{");
  CHECK(inside.run() == 127);
  CHECK_THAT(read_file(inside.file("errors")), StartsWith("error: "));
  CHECK(read_file(inside.meeting().status("0")) == "127\n");
}

TEST_CASE("the process outside passes signals on, and returns with the runtime", "[container]") {
  const bool through_pipe = GENERATE(true, false);
  Inside inside;
  std::fflush(nullptr);
  const pid_t outside = test::begin_child([&] {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const Signals signals;
    std::optional<ControlPipe> pipe;
    if (through_pipe) pipe.emplace(inside.meeting());
    Command command;
    command.argv = {
        "/bin/sh", "-c",
        through_pipe ? "exec 3<>control; echo >up; /usr/bin/od -An -tu1 -N2 control >bytes; exit 9"
                     : "trap 'exit 8' USR1; echo >up; while :; do /bin/sleep 0.01; done"};
    command.directory = inside.file(".");
    command.own_group = true;
    return stay_beside(start(command), signals, pipe).code;
  });
  inside.wait_for_file("up");
  ::kill(outside, SIGUSR1);
  CHECK(wait_for(outside) == ExitStatus{.code = through_pipe ? 9 : 8});
  if (through_pipe) {  // the greeting, then the signal
    CHECK(read_file(inside.file("bytes")) == "   0  " + std::to_string(SIGUSR1) + "\n");
  }
}

}  // namespace dlflow
