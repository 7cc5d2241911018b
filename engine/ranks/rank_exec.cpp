#include "engine/ranks/rank_exec.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/parse_json.h"
#include "base/process.h"
#include "base/process_tree.h"
#include "base/text.h"
#include "engine/ranks/rank_variables.h"
#include "engine/ranks/save_request.h"

namespace dlflow {

namespace {

/// The signals for a rank, blocked until they are taken.
class RankSignals {
 public:
  explicit RankSignals(int request) {
    ::sigemptyset(&set_);
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) ::sigaddset(&set_, number);
    if (request != 0) ::sigaddset(&set_, request);
    ::sigprocmask(SIG_BLOCK, &set_, nullptr);
  }

  /// Returns the next signal; 0 if none comes within `time`.
  int next(std::optional<std::chrono::milliseconds> time) const {
    if (!time) return ::sigwaitinfo(&set_, nullptr);
    const timespec limit{time->count() / 1000, (time->count() % 1000) * 1'000'000};
    return std::max(0, ::sigtimedwait(&set_, nullptr, &limit));
  }

 private:
  sigset_t set_{};
};

/// Starts the program in this process's group. Launchers signal the whole group, like srun all
/// processes of its step, so the save request has its own signal, which the program ignores.
/// Without one, the program gets its own group, and SIGTERM and SIGINT are passed on.
ExitStatus run_beside(char** argv, const RankPlan& plan) {
  const bool asks = plan.asks_by != 0;
  const bool is_shielded = asks && plan.asks_by == plan.asked_by;
  const RankSignals signals(asks ? plan.asked_by : 0);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  Command command;
  for (char** word = argv; *word != nullptr; ++word) command.argv.emplace_back(*word);
  command.environment = current_environment();
  command.own_group = is_shielded;
  command.dies_with_parent = true;
  if (asks && !is_shielded) command.ignored_signals = {plan.asked_by};
  const pid_t program = start(command);
  std::optional<SaveRequest> request;
  std::optional<ExitStatus> exit;
  while (!(exit = poll_exit(program))) {
    const int number = signals.next(request ? std::optional(kAskAgain) : std::nullopt);
    if (asks && number == plan.asked_by && !request) {
      request.emplace(plan.asks_by, [](const std::string& warning) {
        std::fprintf(stderr, "%s\n", warning.c_str());
      });
    }
    if (request) request->look(program);
    if (is_shielded && (number == SIGTERM || number == SIGINT)) ::kill(-program, number);
  }
  kill_all_below();
  return *exit;
}

/// Ends this process by the same signal as the program, for the launcher.
[[noreturn]] void end_by(int signal) {
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  ::signal(signal, SIG_DFL);
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, signal);
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  ::raise(signal);
  ::_exit(128 + signal);
}

}  // namespace

void record_lost_rank(const RankPlan& plan, int signal) {
  if (plan.lost_rank.empty()) return;
  const FileDescriptor file(
      ::open(plan.lost_rank.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file) return;  // another rank was first
  const auto variables = rank_variables(plan);
  const auto rank = variables.find("DLFLOW_RANK");
  const std::string node = "node " + host_name();
  const std::string who =
      rank == variables.end() ? node : "rank " + rank->second + " (" + node + ")";
  try {
    write_all(
        file.get(),
        who + ": killed by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")\n",
        plan.lost_rank);
  } catch (const Error&) {  // a full disk: the exit status must suffice
  }
}

std::optional<std::string> read_lost_rank(const std::filesystem::path& file) {
  const std::string text = escaped(trim(read_file_if_exists(file).value_or("")));
  if (text.empty()) return std::nullopt;
  return text;
}

int rank_exec(const std::filesystem::path& file, char** argv) {
  constexpr int kNoProgram = 127;  // as in shells
  try {
    const RankPlan plan = rank_plan_from_json(read_json_file(file));
    const auto misleading = misleading_variables(plan);
    for (const auto& [name, value] : rank_variables(plan)) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
    for (const std::string& name : misleading) ::unsetenv(name.c_str());
    const ExitStatus end = run_beside(argv, plan);
    // A shell's exit status shows that a signal ended its child.
    constexpr int kLastSignal = 64;
    if (end.code > 128 && end.code <= 128 + kLastSignal) record_lost_rank(plan, end.code - 128);
    if (end.signal == 0) return end.code;
    end_by(end.signal);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: cannot start %s on %s: %s\n", argv[0], host_name().c_str(),
                 error.what());
  }
  return kNoProgram;
}

}  // namespace dlflow
