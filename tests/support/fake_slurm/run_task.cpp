#include <fcntl.h>
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

// What slurmd and slurmstepd do: the script of a job as a process.
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

/// The variables that env.c of SLURM sets for a batch script.
void set_variables(const World& world, const Job& job, const Task& task,
                   std::vector<std::string>& environment) {
  const Request& r = job.request;
  std::erase_if(environment, [](const std::string& e) { return e.starts_with("SLURM_"); });
  set(environment, "SLURM_JOB_ID", task.raw_id);
  set(environment, "SLURM_JOBID", task.raw_id);
  set(environment, "SLURM_JOB_NAME", r.name);
  set(environment, "SLURM_JOB_USER", r.user);
  set(environment, "SLURM_JOB_UID", user_id(r.user));
  set(environment, "SLURM_JOB_PARTITION", r.partition);
  if (!r.account.empty()) set(environment, "SLURM_JOB_ACCOUNT", r.account);
  set(environment, "SLURM_JOB_QOS", r.qos.empty() ? "normal" : r.qos);
  set(environment, "SLURM_CLUSTER_NAME", world.config.cluster);
  set(environment, "SLURM_SUBMIT_DIR", r.directory);
  set(environment, "SLURM_SUBMIT_HOST", world.config.cluster + "-login");
  const std::string nodes = host_list(task.shares);
  set(environment, "SLURM_JOB_NODELIST", nodes);
  set(environment, "SLURM_NODELIST", nodes);
  set(environment, "SLURM_JOB_NUM_NODES", int64_t(task.shares.size()));
  set(environment, "SLURM_NNODES", int64_t(task.shares.size()));
  set(environment, "SLURMD_NODENAME", task.shares.front().node);
  set(environment, "SLURM_NODEID", 0);
  set(environment, "SLURM_PROCID", 0);
  set(environment, "SLURM_LOCALID", 0);
  set(environment, "SLURM_NTASKS", std::max(r.tasks, r.nodes));
  set(environment, "SLURM_NPROCS", std::max(r.tasks, r.nodes));
  set(environment, "SLURM_CPUS_ON_NODE", task.shares.front().cpus);
  if (r.cpus_per_task > 1) set(environment, "SLURM_CPUS_PER_TASK", r.cpus_per_task);
  if (r.tasks_per_node > 0) set(environment, "SLURM_NTASKS_PER_NODE", r.tasks_per_node);
  if (r.memory_mb > 0) set(environment, "SLURM_MEM_PER_NODE", r.memory_mb);
  if (r.memory_per_cpu_mb > 0) set(environment, "SLURM_MEM_PER_CPU", r.memory_per_cpu_mb);
  if (task.restarts > 0) set(environment, "SLURM_RESTART_COUNT", task.restarts);
  if (job.is_array()) {
    set(environment, "SLURM_ARRAY_JOB_ID", job.id);
    set(environment, "SLURM_ARRAY_TASK_ID", task.index);
    set(environment, "SLURM_ARRAY_TASK_COUNT", int64_t(job.tasks.size()));
    set(environment, "SLURM_ARRAY_TASK_MIN", job.tasks.front().index);
    set(environment, "SLURM_ARRAY_TASK_MAX", job.tasks.back().index);
  }
  if (world.config.version >= 2302) {
    const int limit = limit_minutes(world, r);
    set(environment, "SLURM_JOB_START_TIME", task.started);
    if (limit > 0) set(environment, "SLURM_JOB_END_TIME", task.started + limit * 60);
  }
}

std::string gpu_list(int count) {
  std::string list;
  for (int i = 0; i < count; ++i) list += (i > 0 ? "," : "") + std::to_string(i);
  return list;
}

Command batch_script(const Call& call, const World& world, const Job& job, const Task& task) {
  const Request& r = job.request;
  const fs::path stored = call.folder() / r.stored;
  Command command;
  command.argv = {(stored / "slurm_script").string()};
  command.argv.insert(command.argv.end(), r.arguments.begin(), r.arguments.end());
  command.environment =
      Json::parse(read_file(stored / "environment")).get<std::vector<std::string>>();
  set_variables(world, job, task, command.environment);
  if (const int gpus = task.shares.front().gpus; gpus > 0) {
    set(command.environment, "CUDA_VISIBLE_DEVICES", gpu_list(gpus));
  }
  command.directory = r.directory;
  command.standard_output = output_path(job, task, r.output);
  command.standard_error =
      r.error.empty() ? command.standard_output : fs::path(output_path(job, task, r.error));
  command.own_group = true;
  return command;
}

/// Passes signals on to the script until it ends: SIGRTMIN + n as n, SIGTERM as SLURM ends a job.
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

/// Ends the task unless its pass was ended by something else: scancel, a requeue, the time limit.
void report(JobId job, int index, int pass, const ExitStatus& status) {
  Call call({"fake-slurm"}, false);
  const Found found = find_task(call.world(), job, index);
  if (found.task->state == State::Running && found.task->restarts == pass) {
    found.task->pid = 0;
    const State state = status.code == 0 ? State::Completed : State::Failed;
    end(call.world(), found, state, status.signal != 0 ? 0 : status.code, status.signal, false);
  }
  if (call.state().mode == Mode::Background) {
    schedule(call.world());
    call.act();
  }
  call.save();
}

/// Begins the task under the lock; nothing if it was ended before it began.
std::optional<Command> begin(JobId job, int index, int pass) {
  Call call({"fake-slurm"}, false);
  const Found found = find_task(call.world(), job, index);
  if (found.task->state != State::Running || found.task->restarts != pass) return std::nullopt;
  found.task->pid = int(::getpid());
  const Command command = batch_script(call, call.world(), *found.job, *found.task);
  if (!found.job->request.append) {
    for (const fs::path& file : {command.standard_output, command.standard_error}) {
      ::truncate(file.c_str(), 0);
    }
  }
  call.save();
  return command;
}

}  // namespace

std::string output_path(const Job& job, const Task& task, const std::string& pattern) {
  const std::string otherwise = job.is_array() ? "slurm-%A_%a.out" : "slurm-%j.out";
  const std::string& text = pattern.empty() ? otherwise : pattern;
  std::string path;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%' || i + 1 == text.size()) {
      path += text[i];
      continue;
    }
    size_t width = 0;  // %4j: at least four digits
    while (++i < text.size() && text[i] >= '0' && text[i] <= '9') width = size_t(text[i] - '0');
    std::string value;
    switch (i < text.size() ? text[i] : '%') {
      case 'j':
        value = std::to_string(task.raw_id == 0 ? job.id : task.raw_id);
        break;
      case 'A':
        value = std::to_string(job.id);
        break;
      case 'a':
        value = job.is_array() ? std::to_string(task.index) : "4294967294";
        break;
      case 'x':
        value = job.request.name;
        break;
      case 'u':
        value = job.request.user;
        break;
      case 'N':
        value = task.shares.empty() ? "" : task.shares.front().node;
        break;
      case 'n':
      case 't':
        value = "0";
        break;
      case '%':
        value = "%";
        break;
      default:
        value = std::string("%") + text[i];
    }
    path += std::string(width > value.size() ? width - value.size() : 0, '0') + value;
  }
  return fs::path(job.request.directory) / path;
}

int run_task(JobId job, int index, int pass) {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  for (int number = SIGRTMIN; number <= SIGRTMAX; ++number) ::sigaddset(&signals, number);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);

  const auto command = begin(job, index, pass);
  if (!command) return 0;
  ExitStatus status{0, 53};  // as SLURM for output that cannot be opened, or no such directory
  try {
    status = watch(start(*command), signals);
  } catch (const Error& error) {
    write_all(STDERR_FILENO, std::string(error.what()) + "\n", "standard error");
    status.code = 1;
  }
  // A test that ended before its jobs has taken its folder away: nothing is to be left of it.
  if (fs::exists(fs::path(std::getenv("FAKE_SLURM")) / "state.json")) {
    report(job, index, pass, status);
  }
  return 0;
}

}  // namespace dlflow::fake_slurm
