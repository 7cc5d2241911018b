#include <algorithm>
#include <ctime>

#include "base/text.h"
#include "tests/support/fake_slurm/call.h"
#include "tests/support/fake_slurm/format.h"
#include "tests/support/fake_slurm/options.h"

namespace dlflow::fake_slurm {
namespace {

/// Whether SLURM ended the batch step with SIGTERM.
bool was_killed(const Task& task) {
  return task.state == State::Cancelled || task.state == State::Timeout;
}

std::string state_text(const Task& task, bool batch) {
  if (batch && was_killed(task)) return "CANCELLED";
  const bool by_somebody = task.state == State::Cancelled && task.cancelled_by >= 0 && !batch;
  return name(task.state) + (by_somebody ? " by " + std::to_string(task.cancelled_by) : "");
}

std::string exit_text(const Task& task, bool batch) {
  if (was_killed(task) && batch) return "0:15";
  return std::to_string(task.exit_code) + ":" + std::to_string(task.exit_signal);
}

/// A field of a record, or with `batch` of its .batch step.
std::string field(const std::string& key, const World& world, const Record& record, bool batch) {
  const Task& task = record.front();
  const bool ended = task.ended != 0;
  const bool waits = task.state == State::Pending;
  const Seconds elapsed = waits ? 0 : (ended ? task.ended : world.now) - task.started;
  const int limit = limit_minutes(record.job->request);
  int cpus = 0;
  for (const Share& share : task.shares) cpus += share.cpus;
  if (key == "JobID") return record.id() + (batch ? ".batch" : "");
  if (key == "State") return state_text(task, batch);
  if (key == "ExitCode") return exit_text(task, batch);
  if (key == "Elapsed") return clock_time(elapsed);
  if (key == "Timelimit" && batch) return "";
  if (key == "Timelimit") return limit == 0 ? "UNLIMITED" : clock_time(limit * 60);
  if (key == "Start") return date(task.started);
  if (key == "End") return date(task.ended);
  if (key == "NodeList") return cpus == 0 ? "None assigned" : host_list(task.shares);
  if (key == "AllocCPUS") return std::to_string(cpus);
  if (key == "TotalCPU") return clock_time(ended ? elapsed : 0);
  if (key == "MaxRSS") return batch && ended ? "2048K" : "";
  if (key == "NTasks") return batch ? "1" : "";
  if (key == "ConsumedEnergyRaw") return ended && !batch ? "1800" : "0";
  if (key == "Submit") return date(batch ? task.started : task.submitted);
  if (key == "JobName") return batch ? "batch" : record.job->request.name;
  throw Refused{"Invalid field requested: \"" + key + "\""};
}

Seconds parse_time(const std::string& text) {
  std::tm time{};
  time.tm_isdst = -1;
  if (::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time) == nullptr) {
    throw Refused{"Invalid time specification (pos=0): " + text};
  }
  return std::mktime(&time);
}

/// Whether `jobs` contains the number of the job or of one of its tasks.
bool is_named(const std::vector<std::string>& jobs, const Record& record) {
  const std::string id = std::to_string(record.job->id);
  return std::any_of(jobs.begin(), jobs.end(), [&](const std::string& one) {
    return one == id || std::any_of(record.tasks.begin(), record.tasks.end(), [&](const Task* t) {
             return one == id + "_" + std::to_string(t->index);
           });
  });
}

/// Accounting lists jobs by the time when they became eligible; others are found only by number.
bool is_wanted(const Record& record, const std::string* jobs, Seconds start) {
  const Task& task = record.front();
  if (task.ended != 0 && task.ended < start) return false;
  if (jobs != nullptr) return is_named(split(*jobs, ','), record);
  return task.eligible != 0 || task.started != 0;
}

void print_table(Call& call, const Words& words) {
  const std::vector<std::string> keys = split(*words.find("format"), ',');
  const std::string* jobs = words.find("jobs");
  const Seconds start = parse_time(*words.find("starttime"));
  for (const Record& record : records(call.world())) {
    if (!is_wanted(record, jobs, start)) continue;
    for (const bool batch : {false, true}) {
      if (batch && record.front().shares.empty()) continue;
      std::vector<std::string> texts;
      for (const std::string& key : keys) {
        texts.push_back(field(key, call.world(), record, batch));
      }
      call.out += join(texts, "|") + "\n";
    }
  }
}

}  // namespace

int sacct(Call& call) {
  const auto words =
      parse_words(call.argv(), {"noheader", "parsable2", "starttime", "format", "jobs"}, call.err);
  if (!words) return 1;
  if (!call.world().config.accounting) {
    call.err = "Slurm accounting storage is disabled\n";
    return 1;
  }
  try {
    call.request();
    call.reply();
    print_table(call, *words);
    return 0;
  } catch (const Refused& refused) {
    return call.fail(refused.text);
  } catch (const Unreachable& error) {
    return call.fail("Problem talking to the database: " + error.text);
  }
}

}  // namespace dlflow::fake_slurm
