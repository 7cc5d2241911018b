#include "engine/ranks/rank_exec.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/parse_json.h"
#include "base/process.h"
#include "engine/ranks/rank_variables.h"

namespace dlflow {

namespace {

/// Launchers may signal all processes of a job. The program does not know SIGUSR1 and would die of
/// it: there it is blocked.
int run_beside(char** argv) {
  sigset_t passed_on;
  ::sigemptyset(&passed_on);
  for (const int number : {SIGUSR1, SIGTERM, SIGINT, SIGCHLD}) ::sigaddset(&passed_on, number);
  ::sigprocmask(SIG_BLOCK, &passed_on, nullptr);
  Command command;
  for (char** word = argv; *word != nullptr; ++word) command.argv.emplace_back(*word);
  command.environment = current_environment();
  command.own_group = true;
  command.dies_with_parent = true;
  command.blocked_signals = {SIGUSR1};
  const pid_t program = start(command);
  std::optional<ExitStatus> exit;
  while (!(exit = poll_exit(program))) {
    int number = 0;
    ::sigwait(&passed_on, &number);
    if (number != SIGCHLD) ::kill(-program, number == SIGUSR1 ? SIGTERM : number);
  }
  ::kill(-program, SIGKILL);  // what it left behind
  return exit->code;
}

}  // namespace

int rank_exec(const std::filesystem::path& file, char** argv) {
  constexpr int kNoProgram = 127;  // as shells have it
  try {
    const RankPlan plan = rank_plan_from_json(read_json_file(file));
    for (const auto& [name, value] : rank_variables(plan)) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
    if (plan.usr1_as_term) return run_beside(argv);
    ::execvp(argv[0], argv);
    std::fprintf(stderr, "error: cannot start %s on %s: %s\n", argv[0], host_name().c_str(),
                 std::strerror(errno));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
  }
  return kNoProgram;
}

}  // namespace dlflow
