#include "tests/support/fake_slurm/call.h"

#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "tests/support/fake_slurm/schedule.h"

namespace dlflow::fake_slurm {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConnect = "Unable to contact slurm controller (connect failure)";

Json to_json(const Stored& stored) {
  Json faults = Json::array();
  for (const Fault& f : stored.faults) {
    faults.push_back({{"command", f.command},
                      {"moment", f.moment},
                      {"effect", f.effect},
                      {"count", f.count},
                      {"late", f.late},
                      {"late_calls", f.late_calls}});
  }
  return {{"world", to_json(stored.world)},
          {"faults", faults},
          {"mode", int(stored.mode)},
          {"down_until", stored.down_until},
          {"clock_offset", stored.clock_offset}};
}

Stored stored_from_json(const Json& json) {
  Stored stored;
  stored.world = world_from_json(json.at("world"));
  for (const Json& f : json.at("faults")) {
    stored.faults.push_back({f.at("command"), f.at("moment"), f.at("effect"), f.at("count"),
                             f.at("late"), f.at("late_calls")});
  }
  stored.mode = Mode(json.at("mode").get<int>());
  json.at("down_until").get_to(stored.down_until);
  json.at("clock_offset").get_to(stored.clock_offset);
  return stored;
}

fs::path world_folder() {
  const char* folder = std::getenv("FAKE_SLURM");
  if (folder == nullptr) {
    throw Error(Errc::InvalidInput, "FAKE_SLURM is not set; it names the folder of the world");
  }
  return folder;
}

pid_t start_task(const fs::path& folder, const Effect& effect, int pass) {
  Command command;
  command.argv = {fs::read_symlink("/proc/self/exe"), "run-task", std::to_string(effect.job),
                  std::to_string(effect.index), std::to_string(pass)};
  command.environment = current_environment();
  command.standard_output = command.standard_error = folder / "run-task.log";  // not our pipes
  command.own_group = true;
  return start(command);
}

/// run_task() passes a real-time signal on to its script as the signal that much above the first.
void signal_task(const Task& task, const Effect& effect) {
  const bool kill = effect.kind == Effect::Kind::Kill;
  const pid_t pid = kill ? effect.pid : task.pid;
  if (pid == 0) return;  // it has not begun: nobody to tell, as on a node that still prepares
  ::kill(pid, kill ? SIGTERM : SIGRTMIN + effect.number);
}

}  // namespace

Seconds real_time() { return std::time(nullptr); }

std::string user_name() {
  if (const char* name = std::getenv("FAKE_SLURM_USER")) return name;
  const passwd* entry = ::getpwuid(::getuid());
  return entry == nullptr ? std::to_string(::getuid()) : entry->pw_name;
}

int user_id(const std::string& name) {
  const passwd* own = ::getpwuid(::getuid());
  if (own != nullptr && name == own->pw_name) return int(::getuid());
  int id = 2000;  // a user of a test: any number that stays the same
  for (const char letter : name) id += letter;
  return id;
}

Call::Call(std::vector<std::string> argv, bool logged)
    : argv_(std::move(argv)),
      command_(fs::path(argv_.front()).filename().string()),
      folder_(world_folder()) {
  make_directories(folder_);
  lock();
  load();
  if (!logged) return;
  const Json line = {{"command", command_},
                     {"argv", std::vector<std::string>(argv_.begin() + 1, argv_.end())},
                     {"clock", world().now},
                     {"at", to_rfc3339(SystemClock().now())},
                     {"directory", fs::current_path().string()}};
  AppendFile(folder_ / "calls.jsonl").append(line.dump());
  for (Late& late : world().late) --late.calls;
  arrive(world());
  if (state_.mode == Mode::Background) schedule(world());
}

void Call::lock() {
  FileDescriptor file(::open((folder_ / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file) throw_errno("cannot open " + (folder_ / "lock").string(), errno);
  while (::flock(file.get(), LOCK_EX) != 0) {
    if (errno != EINTR) throw_errno("cannot lock " + (folder_ / "lock").string(), errno);
  }
  lock_ = std::move(file);
}

void Call::load() {
  const auto text = read_file_if_exists(folder_ / "state.json");
  loaded_ = text.value_or("");
  if (text) {
    state_ = stored_from_json(Json::parse(*text));
  } else {
    state_.world = new_world();
  }
  if (state_.mode == Mode::Background) world().now = real_time() + state_.clock_offset;
}

void Call::save() {
  std::string text = to_json(state_).dump();
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
  save();
  if (effect == "kill") ::raise(SIGKILL);
  if (effect == "hang") {
    lock_.reset();
    while (true) ::pause();
  }
  if (effect.starts_with("slow:")) {
    lock_.reset();
    std::this_thread::sleep_for(std::chrono::duration<double>(std::atof(effect.c_str() + 5)));
    lock();
    load();
    return;
  }
  if (effect == "timeout") throw Unreachable{"Socket timed out on send/recv operation"};
  if (effect == "connect") throw Unreachable{command_ == "sacct" ? "Connection refused" : kConnect};
  throw Unreachable{effect};
}

void Call::request(bool slurmdbd) {
  strike("before");
  if (!slurmdbd && world().now < state_.down_until) throw Unreachable{kConnect};
}

void Call::reply() {
  act();  // what was accepted happens, whoever hears of it
  strike("after");
}

std::optional<Late> Call::take_late() {
  const auto fault = take("late");
  if (!fault) return std::nullopt;
  state_.faults.push_back({command_, "after", fault->effect, 1});
  const Seconds due = fault->late_calls > 0 ? 0 : world().now + fault->late;
  return Late{{}, due, fault->late_calls};
}

void Call::act() {
  while (!world().effects.empty()) {
    const std::vector<Effect> effects = std::exchange(world().effects, {});
    if (state_.mode == Mode::Outcomes) return;
    save();
    std::vector<pid_t> started;
    for (const Effect& effect : effects) {
      const Task* task = find_task(world(), effect.job, effect.index).task;
      if (effect.kind != Effect::Kind::Start) {
        signal_task(*task, effect);
      } else if (task->state == State::Running) {
        started.push_back(start_task(folder_, effect, task->restarts));
      }
    }
    if (state_.mode == Mode::Background || started.empty()) return;
    lock_.reset();  // the jobs may call sbatch and scontrol
    for (const pid_t pid : started) wait_for(pid);
    lock();
    load();
    schedule(world());
  }
}

void Call::print() const {
  write_all(STDERR_FILENO, err, "standard error");
  write_all(STDOUT_FILENO, out, "standard output");
}

int Call::finish(int status) {
  if (state_.mode == Mode::Background) schedule(world());
  act();
  if (const auto fault = take("output")) {
    if (fault->effect == "banner")
      out = "** Welcome to alpha. Maintenance on Monday 8:00 **\n" + out;
    if (fault->effect == "banner-after") out += "** Your quota is 91 % used: 4711 files **\n";
    if (fault->effect == "banner-stderr") err = "** Welcome to alpha, node 42 **\n" + err;
    if (fault->effect == "empty") out.clear();
    if (fault->effect == "truncated") out.resize(out.size() / 2);
    if (fault->effect == "garbage") out = "<html>502 Bad Gateway</html>\n";
  }
  save();
  lock_.reset();
  print();
  return status;
}

}  // namespace dlflow::fake_slurm
