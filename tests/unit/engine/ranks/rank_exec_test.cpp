#include "engine/ranks/rank_exec.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "base/process.h"
#include "engine/ranks/rank_plan.h"
#include "tests/support/catch.h"
#include "tests/support/in_child.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;

namespace {

/// Runs `script` as a rank in its own process group, which is asked to save by `asks_by` if its
/// launcher passes on `asked_by`. Sends `asked_by` to the group once the script has made the file
/// `ready`, and returns the rank's exit status.
int status_after_request(const std::string& script, int asks_by, int asked_by) {
  test::TempDir folder;
  RankPlan plan;
  plan.nodes = {{"n1", 1}};
  plan.asks_by = asks_by;
  plan.asked_by = asked_by;
  folder.write("plan.json", json_of(plan).dump());
  const std::string ready = folder.path() / "ready";
  const std::string text = script + "; touch " + ready + "; while :; do sleep 0.02; done";
  const pid_t rank = test::begin_child([&] {
    ::setpgid(0, 0);
    ::setenv("READY", ready.c_str(), 1);
    std::string words[] = {"/bin/sh", "-c", text};
    char* argv[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
    return rank_exec(folder.path() / "plan.json", argv);
  });
  for (int i = 0; i < 6000 && !std::filesystem::exists(ready); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ::kill(-rank, asked_by);
  return wait_for(rank).code;
}

}  // namespace

TEST_CASE("a rank is asked to save by its own signal, whatever its launcher passes on", "[ranks]") {
  CHECK(status_after_request("trap 'exit 7' TERM", SIGTERM, SIGUSR1) == 7);
  CHECK(status_after_request("trap 'exit 8' USR1", SIGUSR1, SIGUSR2) == 8);
  CHECK(status_after_request("trap 'exit 9' USR1", SIGUSR1, SIGUSR1) == 9);
}

TEST_CASE("other processes of a rank beside the one that saves get no request", "[ranks]") {
  const std::string piped =
      "sh -c 'trap \"echo saved; exit 5\" USR1; touch $READY; while :; do sleep 0.01; done' "
      "| grep -q saved && exit 6";
  CHECK(status_after_request(piped, SIGUSR1, SIGUSR2) == 6);
  CHECK(status_after_request("setsid " + piped, SIGUSR1, SIGUSR1) == 6);
}

TEST_CASE("a rank ended by a signal ends by the same signal, and the first such rank is recorded",
          "[ranks]") {
  const test::TempDir folder;
  RankPlan plan;
  plan.nodes = {{"n1", 1}};
  plan.lost_rank = folder.path() / "lost";
  folder.write("plan.json", json_of(plan).dump());
  for (const std::string signal : {"9", "15"}) {
    const pid_t rank = test::begin_child([&] {
      std::string words[] = {"/bin/sh", "-c", "kill -" + signal + " $$"};
      char* argv[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
      return rank_exec(folder.path() / "plan.json", argv);
    });
    CHECK(wait_for(rank).signal == std::stoi(signal));
  }
  CHECK(read_lost_rank(plan.lost_rank) ==
        "rank 0 (node " + host_name() + "): killed by signal 9 (Killed)");
}
