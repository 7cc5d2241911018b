#include "engine/backend/session.h"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <string>

#include "base/file.h"
#include "base/handle.h"

namespace dlflow {
namespace {

/// Field 6 of /proc/PID/stat; 0 if there is no such process.
pid_t session_of(pid_t pid) {
  const auto text = read_file_if_exists("/proc/" + std::to_string(pid) + "/stat");
  const size_t end_of_name = text ? text->rfind(')') : std::string::npos;
  if (end_of_name == std::string::npos) return 0;
  std::istringstream fields(text->substr(end_of_name + 1));
  std::string state;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  fields >> state >> parent >> group >> session;
  return session;
}

}  // namespace

void end_session(const ProcessIdentity& leader) {
  if (leader.host != host_name()) return;
  const auto self = identify(::getpid());
  if (!self || self->boot_id != leader.boot_id) return;
  // A number is not given away while a session has it: if a process has it, the session is gone.
  if (identify(leader.pid)) return;
  const Handle<DIR, ::closedir> folder(::opendir("/proc"));
  if (!folder) return;
  while (const dirent* entry = ::readdir(folder.get())) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid > 0 && session_of(pid) == leader.pid) ::kill(pid, SIGKILL);
  }
}

}  // namespace dlflow
