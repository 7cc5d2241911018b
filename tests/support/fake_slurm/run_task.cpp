#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "tests/support/fake_slurm/call.h"
#include "tests/support/fake_slurm/format.h"
#include "tests/support/fake_slurm/schedule.h"

// Acts as slurmd and slurmstepd: runs a job's script as a process.
namespace dlflow::fake_slurm {
namespace {

namespace fs = std::filesystem;

constexpr int kKillWait = 1;  // seconds between SIGTERM and SIGKILL

void set(std::vector<std::string>& environment, const std::string& name, const std::string& value) {
  std::erase_if(environment, [&](const std::string& e) { return e.starts_with(name + "="); });
  environment.push_back(name + "=" + value);
}

void set(std::vector<std::string>& environment, const std::string& name, int64_t value) {
  set(environment, name, std::to_string(value));
}

/// Sets the variables that env.c of SLURM sets for a batch script.
void set_variables(const World& world, const Job& job, const Task& task,
                   std::vector<std::string>& environment) {
  const Request& r = job.request;
  std::erase_if(environment, [](const std::string& e) { return e.starts_with("SLURM_"); });
  set(environment, "SLURM_JOB_ID", task.raw_id);
  set(environment, "SLURM_JOB_NAME", r.name);
  set(environment, "SLURM_CLUSTER_NAME", world.config.cluster);
  set(environment, "SLURM_JOB_NODELIST", host_list(task.shares));
  set(environment, "SLURM_JOB_NUM_NODES", int64_t(task.shares.size()));
  set(environment, "SLURMD_NODENAME", task.shares.front().node);
  set(environment, "SLURM_NODEID", 0);
  set(environment, "SLURM_PROCID", 0);
  set(environment, "SLURM_LOCALID", 0);
  set(environment, "SLURM_NTASKS", std::max(r.tasks, r.nodes));
  set(environment, "SLURM_NPROCS", std::max(r.tasks, r.nodes));
  if (r.cpus_per_task > 1) set(environment, "SLURM_CPUS_PER_TASK", r.cpus_per_task);
  if (r.tasks_per_node > 0) set(environment, "SLURM_NTASKS_PER_NODE", r.tasks_per_node);
  if (r.memory_mb > 0) set(environment, "SLURM_MEM_PER_NODE", r.memory_mb);
  if (task.restarts > 0) set(environment, "SLURM_RESTART_COUNT", task.restarts);
  if (!job.is_array()) return;
  set(environment, "SLURM_ARRAY_JOB_ID", job.id);
  set(environment, "SLURM_ARRAY_TASK_ID", task.index);
}

/// --output with %a and %% replaced; slurm-%j.out by default.
std::string output_path(const Job& job, const Task& task) {
  const std::string& text = job.request.output;
  std::string path = text.empty() ? "slurm-" + std::to_string(task.raw_id) + ".out" : "";
  for (size_t i = 0; i < text.size(); ++i) {
    const bool special = text[i] == '%' && i + 1 < text.size();
    if (special) ++i;
    path += special && text[i] == 'a' ? std::to_string(task.index) : std::string(1, text[i]);
  }
  return fs::path(job.request.directory) / path;
}

Command batch_script(const Call& call, const World& world, const Job& job, const Task& task) {
  const Request& r = job.request;
  const fs::path stored = call.folder() / r.stored;
  Command command;
  command.argv = {(stored / "slurm_script").string()};
  command.environment =
      Json::parse(read_file(stored / "environment")).get<std::vector<std::string>>();
  set_variables(world, job, task, command.environment);
  command.directory = r.directory;
  command.standard_output = command.standard_error = output_path(job, task);
  command.own_group = true;
  return command;
}

/// Passes signals on to the script until it ends: SIGRTMIN + n as n, SIGTERM as in SLURM.
ExitStatus watch(pid_t script, const sigset_t& signals) {
  std::time_t kill_at = 0;
  while (true) {
    if (const auto status = poll_exit(script)) return *status;
    const timespec pause{0, 5'000'000};
    const int number = ::sigtimedwait(&signals, nullptr, &pause);
    if (number == SIGTERM) {
      ::kill(-script, SIGCONT);
      ::kill(-script, SIGTERM);
      kill_at = std::time(nullptr) + kKillWait + 1;
    } else if (number == SIGRTMIN + SIGKILL) {
      ::kill(-script, SIGKILL);
    } else if (number > SIGRTMIN) {
      ::kill(script, number - SIGRTMIN);
    }
    if (kill_at != 0 && std::time(nullptr) >= kill_at) ::kill(-script, SIGKILL);
  }
}

/// Ends the task unless scancel, a requeue or the time limit has already ended its pass.
void report(JobId job, int index, int pass, const ExitStatus& status) {
  Call call({"fake-slurm"}, false);
  const Found found = find_task(call.world(), job, index);
  if (found.task->state == State::Running && found.task->restarts == pass) {
    found.task->pid = 0;
    const State state = status.code == 0 ? State::Completed : State::Failed;
    end(call.world(), found, state, status.signal != 0 ? 0 : status.code, status.signal, false);
  }
  if (call.state().background) {
    schedule(call.world());
    call.act();
  }
  call.save();
}

/// Begins the task under the lock; returns nothing if it has already ended.
std::optional<Command> begin(JobId job, int index, int pass) {
  Call call({"fake-slurm"}, false);
  const Found found = find_task(call.world(), job, index);
  if (found.task->state != State::Running || found.task->restarts != pass) return std::nullopt;
  found.task->pid = int(::getpid());
  const Command command = batch_script(call, call.world(), *found.job, *found.task);
  if (!found.job->request.append) ::truncate(command.standard_output.c_str(), 0);
  call.save();
  return command;
}

}  // namespace

int run_task(JobId job, int index, int pass) {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  for (int number = SIGRTMIN; number <= SIGRTMAX; ++number) ::sigaddset(&signals, number);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);

  const auto command = begin(job, index, pass);
  if (!command) return 0;
  ExitStatus status{0, 53};  // as SLURM if the output or the directory cannot be opened
  try {
    status = watch(start(*command), signals);
  } catch (const Error& error) {
    write_all(STDERR_FILENO, std::string(error.what()) + "\n", "standard error");
    status.code = 1;
  }
  // If the test has ended and removed its folder, the job must leave nothing behind.
  if (fs::exists(fs::path(std::getenv("FAKE_SLURM")) / "state.json")) {
    report(job, index, pass, status);
  }
  return 0;
}

}  // namespace dlflow::fake_slurm
