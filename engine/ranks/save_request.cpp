#include "engine/ranks/save_request.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>

#include "base/process.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// Programs that forward signals to their children.
constexpr std::array<std::string_view, 11> kForwarders = {
    "mpirun", "mpiexec", "mpiexec.hydra", "orterun",    "prterun",  "srun",
    "jsrun",  "timeout", "torchrun",      "accelerate", "deepspeed"};
constexpr std::array<std::string_view, 3> kForwardingModules = {
    "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"};

template <typename List>
bool holds(const List& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

/// Also recognises "python3 /venv/bin/torchrun" and "python3 -m torch…".
bool is_forwarder(const std::vector<std::string>& words) {
  constexpr size_t kShownWords = 4;
  for (size_t i = 0; i < std::min(words.size(), kShownWords); ++i) {
    const std::string name = fs::path(words[i]).filename();
    if (i < 2 && holds(kForwarders, name)) return true;
    if (i > 0 && holds(kForwardingModules, words[i])) return true;
  }
  return false;
}

/// A snapshot of the processes of a step.
class Look {
 public:
  Look(const std::vector<ProcessStat>& below, int signal, const fs::path& proc)
      : signal_(signal), proc_(proc) {
    for (const ProcessStat& process : below) add(process);
  }

  /// The processes to ask.
  std::vector<ProcessStat> chosen() const {
    std::set<pid_t> above;  // ancestors of processes that handle the signal
    for (const auto& [pid, process] : known_) {
      if (process.handles && !process.forwards) add_ancestors(process, above);
    }
    std::vector<ProcessStat> list;
    for (const auto& [pid, process] : known_) {
      if (!process.handles) continue;
      if (process.forwards && (above.contains(pid) || is_below_forwarder(process))) continue;
      list.push_back(process.stat);
    }
    return list;
  }

 private:
  struct Known {
    ProcessStat stat;
    bool is_blocked = false;
    bool handles = false;
    bool forwards = false;
    bool is_other_dlflow = false;
  };

  const Known* parent_of(const Known& process) const {
    const auto found = known_.find(process.stat.parent);
    return found == known_.end() ? nullptr : &found->second;
  }

  void add(const ProcessStat& stat) {
    Known process{.stat = stat};
    const Known* const parent = parent_of(process);
    const std::vector<std::string> words = command_line(stat.pid, proc_);
    process.is_other_dlflow = (parent != nullptr && parent->is_other_dlflow) ||
                              (!words.empty() && fs::path(words[0]).filename() == "dlflow");
    const SignalUse use = signal_use(stat.pid, signal_, proc_);
    process.is_blocked = use.is_blocked;
    const bool blocks_itself = use.is_blocked && (parent == nullptr || !parent->is_blocked);
    process.handles = (use.is_caught || blocks_itself) && !process.is_other_dlflow &&
                      !is_loader(stat, words, parent);
    process.forwards = process.handles && is_forwarder(words);
    known_.emplace(stat.pid, process);
  }

  /// Whether it is a worker of PyTorch's DataLoader: these handle these four signals and are
  /// created by the module multiprocessing.
  bool is_loader(const ProcessStat& stat, const std::vector<std::string>& words,
                 const Known* parent) const {
    if (signal_ != SIGTERM) return false;
    for (const int signal : {SIGBUS, SIGSEGV, SIGFPE}) {
      if (!signal_use(stat.pid, signal, proc_).is_caught) return false;
    }
    if (parent != nullptr && command_line(parent->stat.pid, proc_) == words) return true;
    return std::any_of(words.begin(), words.end(), [](const std::string& word) {
      return word == "--multiprocessing-fork" ||
             word.find("multiprocessing.forkserver") != word.npos;
    });
  }

  void add_ancestors(const Known& process, std::set<pid_t>& above) const {
    for (const Known* next = parent_of(process); next != nullptr; next = parent_of(*next)) {
      if (!above.insert(next->stat.pid).second) return;
    }
  }

  bool is_below_forwarder(const Known& process) const {
    for (const Known* next = parent_of(process); next != nullptr; next = parent_of(*next)) {
      if (next->forwards) return true;
    }
    return false;
  }

  int signal_;
  const fs::path& proc_;
  std::map<pid_t, Known> known_;
};

}  // namespace

std::vector<ProcessStat> SaveRequest::to_ask(const std::vector<ProcessStat>& below) const {
  return Look(below, signal_, proc_).chosen();
}

void SaveRequest::look(pid_t program) {
  if (is_blind_) return;
  constexpr useconds_t kLongerThanAnExec = 10'000;
  const bool is_first = seen_.empty() && asked_.empty();
  if (is_first) {
    for (const ProcessStat& process : to_ask(processes_below(::getpid(), proc_))) {
      seen_.emplace(process.pid, process.start_ticks);
    }
    ::usleep(kLongerThanAnExec);
  }
  const std::vector<ProcessStat> below = processes_below(::getpid(), proc_);
  const bool is_shown = std::ranges::any_of(
      below, [&](const ProcessStat& process) { return process.pid == program; });
  if (!is_shown) return ask_blindly(program);
  std::set<Name> now;
  for (const ProcessStat& process : to_ask(below)) {
    const Name name{process.pid, process.start_ticks};
    now.insert(name);
    if (!seen_.contains(name) || !asked_.insert(name).second) continue;
    send_signal(process, signal_);
  }
  seen_ = std::move(now);
}

void SaveRequest::ask_blindly(pid_t program) {
  is_blind_ = true;
  if (warn_)
    warn_("warning: " + proc_.string() + " does not show the processes of this step on " +
          host_name() +
          " (hidepid?), so its whole process group is asked to save, and processes that do not "
          "handle " +
          (signal_ == SIGTERM ? "SIGTERM" : "SIGUSR1") + " will die");
  const bool leads_group = ::getpgid(program) == program;
  asked_.emplace(program, 0);
  ::kill(leads_group ? -program : program, signal_);
}

}  // namespace dlflow
