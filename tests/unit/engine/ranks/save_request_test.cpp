#include "engine/ranks/save_request.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "base/file.h"
#include "base/process.h"
#include "tests/support/catch.h"
#include "tests/support/in_child.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
namespace fs = std::filesystem;

namespace {

/// Asks the processes of `script`, from a process whose only child it is, until the script has
/// ended. Returns its exit status. The script makes the file `ready` when it may be asked.
int status_after_looks(const fs::path& folder, const std::string& script, int signal,
                       const fs::path& proc = "/proc") {
  return test::in_child([&] {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    Command command;
    command.argv = {"/bin/sh", "-c", script};
    command.environment = current_environment();
    command.directory = folder;
    command.own_group = true;
    const pid_t program = start(command);
    while (!fs::exists(folder / "ready")) ::usleep(1000);
    SaveRequest request(
        signal, [&](const std::string& text) { write_file(folder / "warning", text); }, proc);
    std::optional<ExitStatus> exit;
    for (; !exit; ::usleep(20'000)) {
      request.look(program);
      exit = poll_exit(program);
    }
    kill_all_below();
    return exit->code;
  });
}

}  // namespace

TEST_CASE("each process that handles the request is asked once", "[ranks]") {
  const test::TempDir folder;
  folder.write("counts.sh",
               "trap 'echo >> count' USR1; touch ready\n"
               "i=0; while [ $i -lt 60 ]; do sleep 0.01; i=$((i + 1)); done");
  CHECK(status_after_looks(folder.path(), "sh counts.sh & sh counts.sh & wait; exit 3", SIGUSR1) ==
        3);
  CHECK(read_file(folder.path() / "count") == "\n\n");
}

TEST_CASE("a process that passes the signal on is not asked beside its target", "[ranks]") {
  const test::TempDir folder;
  folder.write("mpirun",
               "trap 'touch forwarded; kill -USR1 $rank' USR1; sh saves.sh & rank=$!; touch ready\n"
               "wait; wait; exit 4");
  SECTION("its target is on this machine") {
    folder.write("saves.sh",
                 "trap 'echo >> count' USR1\n"
                 "i=0; while [ $i -lt 60 ]; do sleep 0.01; i=$((i + 1)); done");
    CHECK(status_after_looks(folder.path(), "sh mpirun", SIGUSR1) == 4);
    CHECK(read_file(folder.path() / "count") == "\n");
    CHECK_FALSE(fs::exists(folder.path() / "forwarded"));
  }
  SECTION("its target is elsewhere") {
    folder.write("saves.sh", "sleep 0.5");
    CHECK(status_after_looks(folder.path(), "sh mpirun", SIGUSR1) == 4);
    CHECK(fs::exists(folder.path() / "forwarded"));
  }
}

TEST_CASE(
    "a request goes to the program and its group if processes are hidden, with a note in the log",
    "[ranks]") {
  const test::TempDir folder;
  const test::TempDir no_proc;
  CHECK(status_after_looks(folder.path(),
                           "trap 'exit 7' USR1; touch ready; while :; do sleep 0.01; done", SIGUSR1,
                           no_proc.path()) == 7);
  CHECK_THAT(read_file(folder.path() / "warning"), Catch::Contains("(hidepid?)"));
}

TEST_CASE("a signal for a process does not reach another one with the same number", "[ranks]") {
  const pid_t child = test::begin_child([] { return ::pause(); });
  ProcessStat earlier = process_stat(child).value();
  --earlier.start_ticks;
  send_signal(earlier, SIGKILL);
  CHECK(::waitpid(child, nullptr, WNOHANG) == 0);
  send_signal(process_stat(child).value(), SIGKILL);
  CHECK(wait_for(child).signal == SIGKILL);
}
