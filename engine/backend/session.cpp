#include "engine/backend/session.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/process_tree.h"

namespace dlflow {
namespace {

/// All programs of the attempt have this variable, which identifies those with a session of their
/// own.
bool is_of(pid_t pid, const std::string& outputs) {
  const auto variables = environment_of(pid);
  return std::any_of(variables.begin(), variables.end(), [&](const std::string& variable) {
    return variable.starts_with("DLFLOW_OUTPUTS=" + outputs);
  });
}

}  // namespace

void end_left_programs(const ProcessIdentity& leader, const std::filesystem::path& attempt) {
  if (leader.host != host_name()) return;
  const auto self = identify(::getpid());
  if (!self || self->boot_id != leader.boot_id) return;
  // A pid is not reused while a session has it: if a process has this pid, the session is gone.
  const bool has_session = !identify(leader.pid);
  const std::string outputs = attempt / "pass-";
  constexpr int kRounds = 10;  // a process may fork just before it is killed
  bool is_any_left = true;
  for (int i = 0; i < kRounds && is_any_left; ++i) {
    is_any_left = false;
    for (const ProcessStat& process : all_processes()) {
      const bool is_left =
          !process.has_ended() && process.pid != self->pid &&
          ((has_session && process.session == leader.pid) || is_of(process.pid, outputs));
      if (!is_left) continue;
      send_signal(process, SIGKILL);
      is_any_left = true;
    }
  }
}

}  // namespace dlflow
