#include "base/process_tree.h"

#include <dirent.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <map>
#include <sstream>

#include "base/file.h"
#include "base/handle.h"
#include "base/text.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> read_of(pid_t pid, const char* file, const fs::path& proc) {
  try {
    return read_file_if_exists(proc / std::to_string(pid) / file);
  } catch (const std::exception&) {  // it just ended, or belongs to another user
    return std::nullopt;
  }
}

/// Whether the line "SigCgt:\t0000000000000200" of a status includes the signal.
bool has_signal(const std::string& status, const char* line, int signal) {
  const size_t found = status.find(line);
  if (found == std::string::npos) return false;
  const uint64_t set =
      std::strtoull(status.c_str() + found + std::string(line).size(), nullptr, 16);
  return ((set >> (signal - 1)) & 1) != 0;
}

/// The words of a file, each ended by a zero byte.
std::vector<std::string> words_of(pid_t pid, const char* file, const fs::path& proc) {
  const std::string text = read_of(pid, file, proc).value_or("");
  if (text.empty()) return {};
  return split(std::string_view(text).substr(0, text.size() - 1), '\0');
}

}  // namespace

std::optional<ProcessStat> process_stat(pid_t pid, const fs::path& proc) {
  const auto text = read_of(pid, "stat", proc);
  const size_t end_of_name = text ? text->rfind(')') : std::string::npos;
  if (end_of_name == std::string::npos) return std::nullopt;
  std::istringstream fields(text->substr(end_of_name + 1));
  ProcessStat stat;
  stat.pid = pid;
  fields >> stat.state >> stat.parent >> stat.group >> stat.session;
  constexpr int kBetween = 22 - 7;  // the fields from tty_nr to itrealvalue
  std::string skipped;
  for (int i = 0; i < kBetween; ++i) fields >> skipped;
  fields >> stat.start_ticks;
  if (!fields) return std::nullopt;
  return stat;
}

std::vector<ProcessStat> all_processes(const fs::path& proc) {
  std::vector<ProcessStat> found;
  const Handle<DIR, ::closedir> folder(::opendir(proc.c_str()));
  while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0) continue;
    if (auto stat = process_stat(pid, proc)) found.push_back(*stat);
  }
  return found;
}

std::vector<ProcessStat> processes_below(pid_t root, const fs::path& proc) {
  std::multimap<pid_t, ProcessStat> children;
  for (const ProcessStat& stat : all_processes(proc)) children.emplace(stat.parent, stat);
  std::vector<ProcessStat> below;
  const auto add_children_of = [&](pid_t parent) {
    const auto [begin, end] = children.equal_range(parent);
    for (auto child = begin; child != end; ++child) below.push_back(child->second);
    children.erase(begin, end);  // entries that changed during the read may form a circle
  };
  add_children_of(root);
  for (size_t i = 0; i < below.size(); ++i) add_children_of(below[i].pid);
  return below;
}

SignalUse signal_use(pid_t pid, int signal, const fs::path& proc) {
  const std::string status = read_of(pid, "status", proc).value_or("");
  return {has_signal(status, "\nSigCgt:", signal), has_signal(status, "\nSigBlk:", signal)};
}

std::vector<std::string> command_line(pid_t pid, const fs::path& proc) {
  return words_of(pid, "cmdline", proc);
}

std::vector<std::string> environment_of(pid_t pid) { return words_of(pid, "environ", "/proc"); }

void send_signal(const ProcessStat& process, int signal) {
  const FileDescriptor held(int(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (!held && errno != ENOSYS) return;  // it has ended
  const auto now = process_stat(process.pid);
  if (!now || now->start_ticks != process.start_ticks) return;
  const bool sent = held && ::syscall(SYS_pidfd_send_signal, held.get(), signal, nullptr, 0) == 0;
  if (!sent && (!held || errno == ENOSYS)) ::kill(process.pid, signal);  // before Linux 5.3
}

void kill_all_below() {
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    const auto left = processes_below(::getpid());
    if (left.empty()) return;
    for (const ProcessStat& process : left) send_signal(process, SIGKILL);
    ::usleep(1000);
  }
}

}  // namespace dlflow
