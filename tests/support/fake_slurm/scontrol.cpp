#include <algorithm>

#include "tests/support/fake_slurm/call.h"
#include "tests/support/fake_slurm/format.h"
#include "tests/support/fake_slurm/schedule.h"

namespace dlflow::fake_slurm {
namespace {

using Arguments = std::vector<std::string>;

/// Whether `parent` depends on `job`, directly or not; like slurmctld, up to ten jobs deep.
bool waits_for(World& world, JobId parent, JobId job, int depth = 10) {
  if (parent == job) return true;
  const Job* found = depth > 0 ? find_job(world, parent) : nullptr;
  if (found == nullptr) return false;
  const auto& dependencies = found->tasks.front().dependencies;
  return std::any_of(dependencies.begin(), dependencies.end(),
                     [&](const Dependency& d) { return waits_for(world, d.job, job, depth - 1); });
}

void require_pending(Found found) {
  if (found.task->state != State::Pending) throw Refused{"Job is no longer pending execution"};
}

void set_dependency(World& world, Found found, const std::string& text) {
  require_pending(found);
  auto dependencies = resolve(world, text);
  for (const Dependency& d : dependencies) {
    if (d.job == found.job->id) throw Refused{"Job dependency problem"};
    if (waits_for(world, d.job, found.job->id)) throw Refused{"Circular job dependency"};
  }
  found.task->dependencies = std::move(dependencies);
}

void set_time_limit(Found found, int minutes) {
  const int limit = limit_minutes(found.job->request);
  if (limit != 0 && minutes > limit) throw Refused{"Access/permission denied"};  // operator only
  found.job->request.minutes = minutes;
}

void update_one(World& world, Found found, const std::string& key, const std::string& value) {
  if (is_final(found.task->state)) throw Refused{"Job has already finished"};
  if (key == "dependency") {
    set_dependency(world, found, value);
  } else if (key == "TimeLimit") {
    set_time_limit(found, std::atoi(value.c_str()));
  } else if (key == "Requeue") {
    found.job->request.requeue = value == "1";
  } else {
    throw Refused{"Not modelled: " + key};
  }
}

/// Applies `action` to each task of `id`; prints errors like scontrol: "TEXT for job 5", for arrays
/// "5_3: TEXT".
template <typename Action>
int for_job(Call& call, const std::string& id, const Action& action) {
  try {
    const auto all = find(call.world(), id);
    if (all.empty()) throw Refused{"Invalid job id specified"};
    int status = 0;
    for (const Found& found : all) {
      if (id.find('_') != id.npos) split_off(call.world(), found);
      try {
        action(found);
      } catch (const Refused& refused) {
        if (!found.job->is_array()) throw;
        call.err += std::to_string(found.job->id) + "_" + std::to_string(found.task->index) + ": " +
                    refused.text + "\n";
        status = 1;
      }
    }
    return status;
  } catch (const Refused& refused) {
    call.err += refused.text + " for job " + id + "\n";
    return 1;
  }
}

/// update jobid=ID KEY=VALUE, requeue ID
int change(Call& call, const std::string& verb, const Arguments& words) {
  const bool updates = verb == "update";
  const std::string id = updates ? words.at(0).substr(words[0].find('=') + 1) : words.at(0);
  try {
    call.request();
    const int status = for_job(call, id, [&](Found found) {
      if (updates) {
        const size_t equals = words.at(1).find('=');
        update_one(call.world(), found, words[1].substr(0, equals), words[1].substr(equals + 1));
      } else {
        requeue(call.world(), found);
      }
    });
    look_again(call.world());
    call.reply();
    return status;
  } catch (const Unreachable& error) {
    call.err = error.text + " for job " + id + "\n";
    return 1;
  }
}

std::string job_line(const Record& record) {
  const Job& job = *record.job;
  const Task& task = record.front();
  const int limit = limit_minutes(job.request);
  const Seconds end =
      task.ended != 0 || task.started == 0 || limit == 0 ? task.ended : task.started + limit * 60;
  std::string line = "JobId=" + std::to_string(task.raw_id == 0 ? job.id : task.raw_id);
  if (job.is_array()) {
    line += " ArrayJobId=" + std::to_string(job.id) + " ArrayTaskId=" + record.indices();
  }
  return line + " JobName=" + job.request.name + " JobState=" + name(task.state) +
         " Reason=" + task.reason + " Restarts=" + std::to_string(task.restarts) +
         " ExitCode=" + std::to_string(task.exit_code) + ":" + std::to_string(task.exit_signal) +
         " SubmitTime=" + date(task.submitted) + " EndTime=" + date(end) + " \n";
}

int show_job(Call& call, const std::string& id) {
  for (const Record& record : records(call.world())) {
    if (std::to_string(record.job->id) == id && !record.front().purged) {
      call.out += job_line(record);
    }
  }
  if (!call.out.empty()) return 0;
  call.err = "slurm_load_jobs error: Invalid job id specified\n";
  return 1;
}

std::string config_text(const Config& c) {
  const std::pair<std::string, std::string> rows[] = {
      {"AccountingStorageType",
       c.accounting ? "accounting_storage/slurmdbd" : "accounting_storage/none"},
      {"ClusterName", c.cluster},
      {"MaxArraySize", std::to_string(c.max_array_size)},
      {"MaxJobCount", "10000"},
      {"SLURM_VERSION", "22.05.8"}};
  std::string text;
  for (const auto& [key, value] : rows) {
    text += key + std::string(24 - key.size(), ' ') + "= " + value + "\n";
  }
  return text + "\nSlurmctld(primary) at " + c.cluster + "-ctl is UP\n";
}

std::string partitions_text(const Config& c) {
  std::string text;
  for (const Partition& partition : kPartitions) {
    const int limit = partition.max_minutes;
    text += "PartitionName=" + partition.name +
            " Default=" + (&partition == &kPartitions.front() ? "YES" : "NO") +
            " DefaultTime=NONE MaxNodes=UNLIMITED MaxTime=" +
            (limit == 0 ? "UNLIMITED" : clock_time(limit * 60)) +
            " State=UP TotalNodes=" + std::to_string(c.nodes) + " \n";
  }
  return text;
}

int show(Call& call, const Arguments& words) {
  const std::string entity = words.empty() ? "" : words[0];
  const Config& config = call.world().config;
  try {
    call.request();
    call.reply();
    if (entity == "job") return show_job(call, words.at(1));
    call.out = entity == "config" ? config_text(config) : partitions_text(config);
    return 0;
  } catch (const Unreachable& error) {
    const std::string kind = entity == "job" ? "jobs" : entity == "config" ? "ctl_conf" : entity;
    call.err = "slurm_load_" + kind + " error: " + error.text + "\n";
    return 1;
  }
}

}  // namespace

int scontrol(Call& call) {
  Arguments words(call.argv().begin() + 1, call.argv().end());
  std::erase(words, "--oneliner");  // always given
  const std::string verb = words.at(0);
  words.erase(words.begin());
  if (verb == "show") return show(call, words);
  if (verb == "update" || verb == "requeue") return change(call, verb, words);
  call.err = "invalid keyword: " + verb + "\n";
  return 1;
}

}  // namespace dlflow::fake_slurm
