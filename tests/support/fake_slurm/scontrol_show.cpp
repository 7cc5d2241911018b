#include "tests/support/fake_slurm/scontrol_show.h"

#include <algorithm>

#include "base/text.h"
#include "tests/support/fake_slurm/format.h"

namespace dlflow::fake_slurm {
namespace {

/// The lines of one entity: below each other, or with -o behind each other.
std::string block(const std::vector<std::string>& lines, bool one_line) {
  return join(lines, one_line ? " " : "\n   ") + (one_line ? " \n" : "\n   \n\n");
}

std::string or_null(const std::string& text) { return text.empty() ? "(null)" : text; }

std::string limit_text(int minutes) {
  return minutes == 0 ? "UNLIMITED" : clock_time(minutes * 60);
}

std::string trackable(int cpus, int64_t megabytes, int nodes, int gpus) {
  std::string text = "cpu=" + std::to_string(cpus);
  if (megabytes > 0) text += ",mem=" + memory(megabytes);
  text += ",node=" + std::to_string(nodes) + ",billing=" + std::to_string(cpus);
  return gpus > 0 ? text + ",gres/gpu=" + std::to_string(gpus) : text;
}

std::string trackable(const World& world, const Job& job, const Task& task) {
  const Request& r = job.request;
  const int cpus = cpus_of(world, job, task);
  const int nodes = nodes_of(world, job, task);
  int64_t megabytes = r.memory_mb * nodes + r.memory_per_cpu_mb * cpus;
  int gpus = r.gpus + r.gpus_per_node * nodes + r.gpus_per_task * r.tasks;
  return trackable(cpus, megabytes, nodes, gpus);
}

std::string identity(const Record& record) {
  std::string text = "JobId=" + std::to_string(record.raw_id());
  if (record.job->is_array()) {
    text += " ArrayJobId=" + std::to_string(record.job->id) + " ArrayTaskId=" + record.indices();
    const int throttle = record.job->request.throttle;
    if (throttle > 0) text += " ArrayTaskThrottle=" + std::to_string(throttle);
  }
  return text + " JobName=" + record.job->request.name;
}

std::string end_time(const World& world, const Job& job, const Task& task) {
  const int limit = limit_minutes(world, job.request);
  if (task.ended != 0) return date(task.ended);
  return task.started == 0 || limit == 0 ? "Unknown" : date(task.started + limit * 60);
}

std::vector<std::string> job_lines(const World& world, const Record& record) {
  const Job& job = *record.job;
  const Task& task = record.front();
  const Request& r = job.request;
  const std::string user = r.user + "(" + std::to_string(user_id(r.user)) + ")";
  const Seconds run_time =
      task.started == 0 ? 0 : (task.ended != 0 ? task.ended : world.now) - task.started;
  const bool waits = task.state == State::Pending;
  std::vector<std::string> lines = {
      identity(record),
      "UserId=" + user + " GroupId=" + user + " MCS_label=N/A",
      "Priority=" + std::string(task.held ? "0" : std::to_string(4294901760u - job.id)) +
          " Nice=" + std::to_string(r.nice) + " Account=" + or_null(r.account) +
          " QOS=" + (r.qos.empty() ? "normal" : r.qos),
      "JobState=" + shown_state(world, task) + " Reason=" + task.reason +
          " Dependency=" + or_null(to_text(task.dependencies)),
      "Requeue=" + std::string(r.requeue ? "1" : "0") +
          " Restarts=" + std::to_string(task.restarts) + " BatchFlag=1 Reboot=0 ExitCode=" +
          std::to_string(task.exit_code) + ":" + std::to_string(task.exit_signal),
      "RunTime=" + clock_time(run_time) + " TimeLimit=" + limit_text(limit_minutes(world, r)) +
          " TimeMin=N/A",
      "SubmitTime=" + date(task.submitted) +
          " EligibleTime=" + date(std::max(task.eligible, task.begin)),
      "AccrueTime=" + date(task.eligible),
      "StartTime=" + date(waits && task.begin != 0 ? task.begin : task.started) +
          " EndTime=" + end_time(world, job, task) + " Deadline=N/A",
      "SuspendTime=None SecsPreSuspend=0 LastSchedEval=" + date(world.now) + " Scheduler=Main",
      "Partition=" + r.partition + " AllocNode:Sid=" + world.config.cluster + "-login:1",
      "ReqNodeList=(null) ExcNodeList=(null)",
      "NodeList=" + (task.shares.empty() ? (waits ? "" : "(null)") : host_list(task.shares))};
  if (!task.shares.empty()) lines.push_back("BatchHost=" + task.shares.front().node);
  lines.push_back("NumNodes=" + std::to_string(nodes_of(world, job, task)) +
                  " NumCPUs=" + std::to_string(cpus_of(world, job, task)) +
                  " NumTasks=" + std::to_string(std::max(r.tasks, r.nodes)) +
                  " CPUs/Task=" + std::to_string(r.cpus_per_task) + " ReqB:S:C:T=0:0:*:*");
  lines.push_back("TRES=" + trackable(world, job, task));
  lines.push_back("Socks/Node=* NtasksPerN:B:S:C=" + std::to_string(r.tasks_per_node) +
                  ":0:*:* CoreSpec=*");
  const std::string per_cpu = memory(r.memory_per_cpu_mb);
  lines.push_back("MinCPUsNode=" + std::to_string(r.cpus_per_task) + " MinMemory" +
                  (r.memory_per_cpu_mb > 0 ? "CPU=" + per_cpu : "Node=" + memory(r.memory_mb)) +
                  " MinTmpDiskNode=0");
  lines.push_back("Features=" + or_null(r.constraint) + " DelayBoot=00:00:00");
  if (!r.reservation.empty()) lines.push_back("Reservation=" + r.reservation);
  lines.push_back(std::string("OverSubscribe=") + (r.exclusive ? "NO" : "OK") +
                  " Contiguous=0 Licenses=(null) Network=(null)");
  lines.push_back("Command=" + or_null(r.script_path));
  lines.push_back("WorkDir=" + r.directory);
  if (!r.comment.empty()) lines.push_back("Comment=" + r.comment + " ");
  const std::string out = output_path(job, task, r.output);
  lines.push_back("StdErr=" + (r.error.empty() ? out : output_path(job, task, r.error)));
  lines.push_back("StdIn=/dev/null");
  lines.push_back("StdOut=" + out);
  lines.push_back("Power=");
  if (!r.gres.empty()) lines.push_back("TresPerNode=gres:" + r.gres);
  return lines;
}

int show_jobs(Call& call, const std::string& id, bool one_line) {
  World& world = call.world();
  if (id.find_first_not_of("0123456789_+") != id.npos) {
    call.err = "scontrol_print_job error: Invalid job id specified\n";
    return 1;
  }
  const JobId number = JobId(std::atol(id.c_str()));
  const int index = id.find('_') == id.npos ? -1 : std::atoi(id.c_str() + id.find('_') + 1);
  bool known = id.empty();
  bool shown = false;
  for (Record record : records(world)) {
    if (!id.empty() && record.job->id != number && record.raw_id() != number) continue;
    known = true;
    if (index >= 0) {
      std::erase_if(record.tasks, [&](const Task* task) { return task->index != index; });
      if (record.tasks.empty()) continue;
      record.shared = false;
    }
    shown = true;
    call.out += block(job_lines(world, record), one_line);
  }
  if (!known) {
    call.err = "slurm_load_jobs error: Invalid job id specified\n";
    return 1;
  }
  if (!shown) call.out = id.empty() ? "No jobs in the system\n" : "Job " + id + " not found\n";
  return shown || id.empty() ? 0 : 1;
}

std::vector<std::string> node_names(const World& world) {
  std::vector<std::string> names;
  for (const Node& node : world.config.nodes) names.push_back(node.name);
  return names;
}

std::vector<std::string> partition_lines(const World& world, const Partition& partition) {
  int cpus = 0;
  int64_t megabytes = 0;
  int gpus = 0;
  for (const Node& node : world.config.nodes) {
    cpus += node.cpus;
    megabytes += node.memory_mb;
    gpus += node.gpus;
  }
  const int nodes = int(world.config.nodes.size());
  return {
      "PartitionName=" + partition.name,
      "AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL",
      std::string("AllocNodes=ALL Default=") + (partition.is_default ? "YES" : "NO") + " QoS=N/A",
      "DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO",
      "MaxNodes=UNLIMITED MaxTime=" + limit_text(partition.max_minutes) +
          " MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED",
      "Nodes=" + host_list(node_names(world)),
      "PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO",
      "OverTimeLimit=NONE PreemptMode=OFF",
      "State=UP TotalCPUs=" + std::to_string(cpus) + " TotalNodes=" + std::to_string(nodes) +
          " SelectTypeParameters=NONE",
      "JobDefaults=(null)",
      "DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED",
      "TRES=" + trackable(cpus, megabytes, nodes, gpus)};
}

std::vector<std::string> node_lines(const World& world, const Node& node) {
  int taken = 0;
  for (const Job& job : world.jobs) {
    for (const Task& task : job.tasks) {
      if (task.state == State::Pending || is_over(world, task)) continue;
      for (const Share& share : task.shares) taken += share.node == node.name ? share.cpus : 0;
    }
  }
  const std::string cpus = std::to_string(node.cpus);
  const std::string state = taken == 0 ? "IDLE" : taken < node.cpus ? "MIXED" : "ALLOCATED";
  std::string partitions;
  for (const Partition& partition : world.config.partitions) {
    partitions += (partitions.empty() ? "" : ",") + partition.name;
  }
  return {
      "NodeName=" + node.name + " Arch=x86_64 CoresPerSocket=" + cpus + " ",
      "CPUAlloc=" + std::to_string(taken) + " CPUEfctv=" + cpus + " CPUTot=" + cpus +
          " CPULoad=0.00",
      "AvailableFeatures=(null)",
      "ActiveFeatures=(null)",
      "Gres=" + (node.gpus == 0 ? "(null)" : "gpu:" + std::to_string(node.gpus)),
      "NodeAddr=" + node.name + " NodeHostName=" + node.name + " Version=22.05.8",
      "OS=Linux 6.1.0 ",
      "RealMemory=" + std::to_string(node.memory_mb) + " AllocMem=0 FreeMem=N/A Sockets=1 Boards=1",
      "State=" + state + " ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A",
      "Partitions=" + partitions + " "};
}

std::string config_text(const World& world) {
  const Config& c = world.config;
  const std::string version = version_text(c.version).substr(6);
  const std::pair<std::string, std::string> rows[] = {
      {"AccountingStorageType",
       c.accounting ? "accounting_storage/slurmdbd" : "accounting_storage/none"},
      {"AuthInfo", "cred_expire=" + std::to_string(c.requeue_delay - 1)},
      {"ClusterName", c.cluster},
      {"JobRequeue", c.requeue_by_default ? "1" : "0"},
      {"KillWait", "30 sec"},
      {"MaxArraySize", std::to_string(c.max_array_size)},
      {"MaxJobCount", std::to_string(c.max_job_count)},
      {"MinJobAge", std::to_string(c.min_job_age) + " sec"},
      {"MpiDefault", "pmix"},
      {"SelectType", "select/cons_tres"},
      {"SLURM_CONF", "/etc/slurm/slurm.conf"},
      {"SLURM_VERSION", version},
      {"SlurmctldHost[0]", c.cluster + "-ctl"}};
  std::string text = "Configuration data as of " + date(world.now) + "\n";
  for (const auto& [key, value] : rows) {
    text += key + std::string(24 - key.size(), ' ') + "= " + value + "\n";
  }
  return text + "\nSlurmctld(primary) at " + c.cluster + "-ctl is UP\n";
}

/// Prints those of `all` whose name is `wanted`, or each; `kind` is for the mistake.
template <typename Entity, typename Lines>
int show_named(Call& call, const std::vector<Entity>& all, const std::string& wanted,
               const std::string& kind, bool one_line, const Lines& lines) {
  for (const Entity& entity : all) {
    if (wanted.empty() || wanted == entity.name) {
      call.out += block(lines(call.world(), entity), one_line);
    }
  }
  if (!call.out.empty()) return 0;
  call.out = kind + " " + wanted + " not found\n";
  return 1;
}

const char* failure_of(const std::string& entity) {
  if (entity.starts_with("job")) return "slurm_load_jobs error: ";
  if (entity.starts_with("part")) return "slurm_load_partitions error: ";
  if (entity.starts_with("node")) return "slurm_load_node error: ";
  return "slurm_load_ctl_conf error: ";
}

}  // namespace

int show(Call& call, const std::vector<std::string>& words, bool one_line) {
  std::string entity = words.empty() ? "" : words[0];
  std::string wanted = words.size() > 1 ? words[1] : "";
  if (const size_t equals = entity.find('='); equals != entity.npos) {
    wanted = entity.substr(equals + 1);
    entity.resize(equals);
  }
  const Config& config = call.world().config;
  try {
    call.request();
    call.reply();
    if (entity.starts_with("job")) return show_jobs(call, wanted, one_line);
    if (entity.starts_with("part")) {
      return show_named(call, config.partitions, wanted, "Partition", one_line, partition_lines);
    }
    if (entity.starts_with("node")) {
      return show_named(call, config.nodes, wanted, "Node", one_line, node_lines);
    }
  } catch (const Unreachable& error) {
    call.err = failure_of(entity) + error.text + "\n";
    return 1;
  }
  if (entity.starts_with("conf")) {
    call.out = config_text(call.world());
    return 0;
  }
  call.err = "invalid entity:" + entity + " for keyword:show \n";
  return 1;
}

}  // namespace dlflow::fake_slurm
