#include "tests/support/fake_slurm/call.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "tests/support/fake_slurm/schedule.h"
#include "tests/support/fake_slurm/world_json.h"

namespace dlflow::fake_slurm {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Fault, command, moment, effect, count, late_calls)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Stored, world, faults, background, clock_offset)

namespace {

namespace fs = std::filesystem;

fs::path world_folder() {
  const char* folder = std::getenv("FAKE_SLURM");
  if (folder == nullptr) {
    throw Error(Errc::InvalidInput, "FAKE_SLURM is not set; it names the folder of the world");
  }
  return folder;
}

void start_task(const fs::path& folder, const Effect& effect, int pass) {
  Command command;
  command.argv = {fs::read_symlink("/proc/self/exe"), "run-task", std::to_string(effect.job),
                  std::to_string(effect.index), std::to_string(pass)};
  command.environment = current_environment();
  command.standard_output = command.standard_error = folder / "run-task.log";  // no pipes
  command.own_group = true;
  start(command);
}

/// Sends SIGRTMIN + n for signal n; run_task() passes n on to its script.
void signal_task(const Task& task, const Effect& effect) {
  const bool kill = effect.kind == Effect::Kind::Kill;
  const pid_t pid = kill ? effect.pid : task.pid;
  if (pid == 0) return;  // not yet begun, as on a node that still prepares
  ::kill(pid, kill ? SIGTERM : SIGRTMIN + effect.number);
}

}  // namespace

Seconds real_time() { return std::time(nullptr); }

Call::Call(std::vector<std::string> argv, bool logged)
    : argv_(std::move(argv)),
      command_(fs::path(argv_.front()).filename().string()),
      folder_(world_folder()) {
  make_directories(folder_);
  FileDescriptor file(::open((folder_ / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file) throw_errno("cannot open " + (folder_ / "lock").string(), errno);
  while (::flock(file.get(), LOCK_EX) != 0) {
    if (errno != EINTR) throw_errno("cannot lock " + (folder_ / "lock").string(), errno);
  }
  lock_ = std::move(file);
  loaded_ = read_file_if_exists(folder_ / "state.json").value_or("");
  if (loaded_.empty()) {
    state_.world = new_world();
  } else {
    state_ = Json::parse(loaded_);
  }
  if (state_.background) world().now = real_time() + state_.clock_offset;
  if (!logged) return;
  const Json line = {{"command", command_},
                     {"argv", std::vector<std::string>(argv_.begin() + 1, argv_.end())}};
  AppendFile(folder_ / "calls.jsonl").append(line.dump());
  for (Late& late : world().late) --late.calls;
  arrive(world());
  if (state_.background) schedule(world());
}

void Call::save() {
  std::string text = Json(state_).dump();
  if (text == loaded_) return;
  write_file_atomic(folder_ / "state.json", text);
  loaded_ = std::move(text);
}

int Call::fail(const std::string& text) {
  err += command_ + ": error: " + text + "\n";
  return 1;
}

std::optional<Fault> Call::take(const std::string& moment) {
  for (auto fault = state_.faults.begin(); fault != state_.faults.end(); ++fault) {
    if (fault->command != command_ && fault->command != "all") continue;
    if (fault->moment != moment) continue;
    const Fault taken = *fault;
    if (fault->count > 0 && --fault->count == 0) state_.faults.erase(fault);
    return taken;
  }
  return std::nullopt;
}

void Call::strike(const std::string& moment) {
  const auto fault = take(moment);
  if (!fault) return;
  const std::string& effect = fault->effect;
  if (effect == "timeout") throw Unreachable{"Socket timed out on send/recv operation"};
  if (effect == "connect") {
    throw Unreachable{command_ == "sacct" ? "Connection refused"
                                          : "Unable to contact slurm controller (connect failure)"};
  }
  throw Unreachable{effect};
}

void Call::reply() {
  act();  // an accepted request takes effect even if the reply is lost
  strike("after");
}

std::optional<Late> Call::take_late() {
  const auto fault = take("late");
  if (!fault) return std::nullopt;
  state_.faults.push_back({command_, "after", fault->effect, 1});
  return Late{{}, fault->late_calls};
}

void Call::act() {
  const std::vector<Effect> effects = std::exchange(world().effects, {});
  if (!state_.background || effects.empty()) return;
  save();  // first, since a job that ends itself also ends this command
  for (const Effect& effect : effects) {
    const Task* task = find_task(world(), effect.job, effect.index).task;
    if (effect.kind != Effect::Kind::Start) {
      signal_task(*task, effect);
    } else if (task->state == State::Running) {
      start_task(folder_, effect, task->restarts);
    }
  }
}

int Call::finish(int status) {
  if (state_.background) schedule(world());
  act();
  if (const auto fault = take("output")) {
    if (fault->effect == "empty") out.clear();
  }
  save();
  lock_.reset();
  write_all(STDERR_FILENO, err, "standard error");
  write_all(STDOUT_FILENO, out, "standard output");
  return status;
}

}  // namespace dlflow::fake_slurm
