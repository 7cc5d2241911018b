#include "base/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/file.h"
#include "base/socket.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/syscalls.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;

namespace {

Command shell(const std::string& script) {
  Command command;
  command.argv = {"/bin/sh", "-c", script};
  command.environment = {"PATH=/usr/bin:/bin", "WORD=it's here"};
  return command;
}

}  // namespace

TEST_CASE("an exit status is distinguished from a signal", "[process]") {
  CHECK(wait_for(start(shell("exit 7"))) == ExitStatus{7, 0});
  CHECK(wait_for(start(shell("kill -9 $$"))) == ExitStatus{137, 9});
}

TEST_CASE("a command has only the given signals blocked", "[process]") {
  Command command = shell("");
  command.argv = {"grep", "SigBlk", "/proc/self/status"};
  CHECK(run(command).text == "SigBlk:\t0000000000000000\n");
  command.blocked_signals = {SIGUSR1, SIGTERM};
  CHECK(run(command).text == "SigBlk:\t0000000000004200\n");  // bits 9 and 14
}

TEST_CASE("an ignored signal does nothing to a program that unblocks all", "[process]") {
  Command command = shell("kill -USR1 $$; sh -c 'kill -USR1 $$'; exit 3");
  command.ignored_signals = {SIGUSR1};
  CHECK(wait_for(start(command)) == ExitStatus{3, 0});
}

TEST_CASE("a command gets fixed descriptors, umask and limits, and none of its caller's",
          "[process]") {
  const FileDescriptor leaked(::open("/dev/null", O_RDONLY));
  const FileDescriptor kept(::open("/dev/null", O_RDONLY));
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const rlimit few{256, files.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &few);
  const mode_t mask = ::umask(077);
  const auto open = [](int number) {
    return "[ -e /proc/self/fd/" + std::to_string(number) + " ]";
  };
  Command command = shell(open(leaked.get()) + " && echo leaked; " + open(kept.get()) +
                          " && echo kept; umask; ulimit -n; ulimit -c");
  command.closes_descriptors = true;
  command.kept_descriptor = kept.get();
  command.has_fixed_limits = true;
  CHECK(run(command).text ==
        "kept\n0022\n" + std::to_string(std::min<rlim_t>(65'536, files.rlim_max)) + "\n0\n");
  ::umask(mask);
  ::setrlimit(RLIMIT_NOFILE, &files);
}

TEST_CASE("a command gets its input and environment, and its output is returned", "[process]") {
  CHECK(run(shell("echo \"$WORD\"")).text == "it's here\n");
  CHECK(run(shell("cat"), "two\nlines").text == "two\nlines");
  CHECK(run(shell("cat")).text.empty());
}

TEST_CASE("a command whose time is over is killed with its children", "[process]") {
  const test::TempDir folder;
  const std::string script = "sleep 60 & echo $! > " + (folder.path() / "pid").string() + "; wait";
  const Output output = run(shell("echo before; " + script),
                            OutputOptions{.time_limit = std::chrono::milliseconds(200)});
  CHECK(output.timed_out);
  CHECK(output.text == "before\n");
  CHECK(output.status.signal == SIGKILL);
  const pid_t child = std::stoi(read_file(folder.path() / "pid"));
  for (int i = 0; i < 6000 && identify(child); ++i) ::usleep(10'000);
  CHECK_FALSE(identify(child));
}

TEST_CASE("a command that ends in time is not waited for longer", "[process]") {
  const auto limit = std::chrono::milliseconds(60'000);
  const Output output =
      run(shell("cat; echo wrong >&2; exit 3"), OutputOptions{"text", limit, true});
  CHECK_FALSE(output.timed_out);
  CHECK(output.status == ExitStatus{3, 0});
  CHECK(output.text == "text");
  CHECK(output.errors == "wrong\n");
}

TEST_CASE("a missing program is named, and no process is left", "[process]") {
  Command command = shell("");
  command.argv = {"no-such-program"};
  CHECK_THROWS_WITH(start(command), Catch::Contains("no-such-program"));
  command.argv = {"/nowhere/program"};
  CHECK_THROWS_WITH(start(command), Catch::Contains("/nowhere/program"));
  const test::TempDir folder;
  const auto script = folder.write_program("script", "#!/nowhere/interpreter\n");
  command.argv = {script.string()};
  CHECK_THROWS_WITH(start(command), Catch::Contains("interpreter"));
  command = shell("true");
  command.directory = "/nowhere";
  CHECK_THROWS_WITH(start(command), Catch::Contains("/nowhere"));
}

TEST_CASE("a process is recognised until it ends", "[process]") {
  const pid_t pid = start(shell("exec sleep 60"));
  const auto identity = identify(pid);
  REQUIRE(identity.has_value());
  CHECK(liveness(*identity) == Liveness::Alive);
  CHECK(process_identity_from_json(to_json(*identity)) == *identity);
  ProcessIdentity other = *identity;
  other.start_ticks += 1;  // the number was given to another process
  CHECK(liveness(other) == Liveness::Dead);
  other = *identity;
  other.host = "elsewhere";
  CHECK(liveness(other) == Liveness::Unknown);
  ::kill(pid, SIGKILL);
  wait_for(pid);
  CHECK(liveness(*identity) == Liveness::Dead);
}

TEST_CASE("a process group is gone when its last member is", "[process]") {
  Command command = shell("sleep 60 & wait");
  command.own_group = true;
  const pid_t group = start(command);
  CHECK(group_exists(group));
  ::kill(-group, SIGKILL);
  wait_for(group);
  for (int i = 0; i < 6000 && group_exists(group); ++i) ::usleep(10'000);
  CHECK_FALSE(group_exists(group));
}

TEST_CASE("a wait for a process or a connection continues after a signal", "[process]") {
  const auto number = GENERATE(uint64_t(SYS_wait4), uint64_t(SYS_poll));
  int left = 3;
  const auto interrupted = [&](uint64_t call) {
    return call == number && left-- > 0 ? test::Fate::fails(EINTR) : test::Fate::made();
  };
  const auto ended = test::run_watched(interrupted, [] {
    Command command;
    command.argv = {"true"};
    command.environment = current_environment();
    const pid_t process = start(command);
    DLFLOW_CHECK(wait_for(process, std::chrono::minutes(1)) == ExitStatus{});
    DLFLOW_CHECK(wait_for(start(command)) == ExitStatus{});
    const Listener listener = listen_anywhere();
    DLFLOW_CHECK(bool(connect_to("127.0.0.1", listener.port, std::chrono::minutes(1))));
  });
  if (!ended) return test::skip("processes cannot be traced here");
  CHECK(*ended == 0);
  CHECK(left <= 0);
}
