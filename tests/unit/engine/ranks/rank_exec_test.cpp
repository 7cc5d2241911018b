#include "engine/ranks/rank_exec.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "base/file.h"
#include "engine/ranks/rank_plan.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;

namespace {

/// Runs `script` as a rank in a group of its own, sends SIGUSR1 to all of that group once the
/// script has made the file `ready`, and returns the rank's exit status.
int status_after_usr1(const std::string& script, bool usr1_as_term) {
  test::TempDir folder;
  RankPlan plan;
  plan.nodes = {{"n1", 1}};
  plan.usr1_as_term = usr1_as_term;
  folder.write("plan.json", to_json(plan).dump());
  const std::string ready = folder.path() / "ready";
  const std::string text = script + "; touch " + ready + "; while :; do sleep 0.02; done";
  const pid_t rank = ::fork();
  if (rank == 0) {
    ::setpgid(0, 0);
    std::string words[] = {"/bin/sh", "-c", text};
    char* argv[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
    ::_exit(rank_exec(folder.path() / "plan.json", argv));
  }
  for (int i = 0; i < 6000 && !std::filesystem::exists(ready); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ::kill(-rank, SIGUSR1);
  int status = 0;
  ::waitpid(rank, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

TEST_CASE("a rank that saves on SIGTERM gets one where its launcher passes on SIGUSR1", "[ranks]") {
  const std::string saves = "trap 'exit 7' TERM";
  CHECK(status_after_usr1(saves, true) == 7);
  CHECK(status_after_usr1(saves, false) == 128 + SIGUSR1);
  CHECK(status_after_usr1("trap 'exit 8' USR1", false) == 8);
}

TEST_CASE("a rank that does not listen is ended by the signal that it is asked by", "[ranks]") {
  CHECK(status_after_usr1("true", true) == 128 + SIGTERM);
}
