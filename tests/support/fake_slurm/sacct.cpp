#include <getopt.h>
#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/text.h"
#include "tests/support/fake_slurm/call.h"
#include "tests/support/fake_slurm/format.h"
#include "tests/support/fake_slurm/options.h"

namespace dlflow::fake_slurm {
namespace {

constexpr Option kOptions[] = {
    {"allusers", 'a', no_argument},        {"accounts", 'A', required_argument},
    {"allocations", 'X', no_argument},     {"brief", 'b', no_argument},
    {"delimiter", 0, required_argument},   {"duplicates", 'D', no_argument},
    {"endtime", 'E', required_argument},   {"format", 'o', required_argument},
    {"jobs", 'j', required_argument},      {"local", 0, no_argument},
    {"name", 0, required_argument},        {"noconvert", 0, no_argument},
    {"noheader", 'n', no_argument},        {"parsable", 'p', no_argument},
    {"parsable2", 'P', no_argument},       {"partition", 'r', required_argument},
    {"starttime", 'S', required_argument}, {"state", 's', required_argument},
    {"units", 0, required_argument},       {"user", 'u', required_argument},
    {"uid", 0, required_argument},         {"version", 'V', no_argument}};

/// A line: a record as accounting has it, or (batch) its .batch step.
struct Line {
  Record record;
  std::string state;
  Seconds submitted = 0, started = 0, ended = 0;
  const std::vector<Share>* shares = nullptr;
  bool batch = false;
};

struct Field {
  const char* name;
  int width;  ///< negative: to the left
  int since;  ///< version
};

// Those of sacct's 110 fields that a workflow engine may ask for. Restarts is in no sacct before
// 24.11.
constexpr Field kFields[] = {
    {"Account", 10, 0},    {"AllocCPUS", 10, 0},    {"AllocNodes", 10, 0},
    {"Cluster", 10, 0},    {"Comment", 14, 0},      {"ConsumedEnergyRaw", 17, 0},
    {"CPUTime", 10, 0},    {"CPUTimeRAW", 10, 0},   {"Elapsed", 10, 0},
    {"ElapsedRaw", 10, 0}, {"Eligible", 19, 0},     {"End", 19, 0},
    {"ExitCode", 8, 0},    {"JobID", -12, 0},       {"JobIDRaw", -12, 0},
    {"JobName", 10, 0},    {"MaxRSS", 10, 0},       {"NCPUS", 10, 0},
    {"NNodes", 8, 0},      {"NodeList", 15, 0},     {"NTasks", 8, 0},
    {"Partition", 10, 0},  {"QOS", 10, 0},          {"Reason", 22, 0},
    {"ReqCPUS", 8, 0},     {"ReqMem", 10, 0},       {"Restarts", 8, 2411},
    {"Start", 19, 0},      {"State", 10, 0},        {"Submit", 19, 0},
    {"Timelimit", 10, 0},  {"TimelimitRaw", 10, 0}, {"TotalCPU", 10, 0},
    {"UID", 6, 0},         {"User", 9, 0},          {"WCKey", 10, 0},
    {"WorkDir", 20, 0}};

struct Failure {
  std::string text;
};

Seconds elapsed(const World& world, const Line& line) {
  if (line.started == 0) return 0;
  return (line.ended != 0 ? line.ended : world.now) - line.started;
}

int line_cpus(const World& world, const Line& line) {
  if (line.shares->empty()) return cpus_of(world, *line.record.job, line.record.front());
  int cpus = 0;
  for (const Share& share : *line.shares) cpus += share.cpus;
  return cpus;
}

std::string requested_memory(const Line& line, int version) {
  const Request& request = line.record.job->request;
  if (line.batch || (request.memory_mb == 0 && request.memory_per_cpu_mb == 0)) return "";
  if (version < 2108) {  // before 21.08: per node or per core, with a letter
    return request.memory_mb > 0 ? memory(request.memory_mb) + "n"
                                 : memory(request.memory_per_cpu_mb) + "c";
  }
  const int nodes = std::max(1, request.nodes);
  const int cpus = std::max(request.tasks, nodes) * request.cpus_per_task;
  return memory(request.memory_mb > 0 ? request.memory_mb * nodes
                                      : request.memory_per_cpu_mb * cpus);
}

/// SLURM ended its batch step with SIGTERM.
bool was_killed(const Line& line) {
  return line.state == "CANCELLED" || line.state == "TIMEOUT" || line.state == "PREEMPTED";
}

std::string state_text(const Line& line) {
  if (line.batch && was_killed(line)) return "CANCELLED";
  const int by = line.record.front().cancelled_by;
  const bool cancelled = line.state == "CANCELLED" && by >= 0 && !line.batch;
  return cancelled ? line.state + " by " + std::to_string(by) : line.state;
}

std::string time_field(const std::string& name, const World& world, const Line& line) {
  const Seconds cpu_seconds = elapsed(world, line) * line_cpus(world, line);
  const int limit = limit_minutes(world, line.record.job->request);
  if (name == "Start") return date(line.started);
  if (name == "End") return date(line.ended);
  if (name == "Submit") return date(line.batch ? line.started : line.submitted);
  if (name == "Eligible") return date(line.record.front().eligible);
  if (name == "Elapsed") return clock_time(elapsed(world, line));
  if (name == "ElapsedRaw") return std::to_string(elapsed(world, line));
  if (name == "CPUTime") return clock_time(cpu_seconds);
  if (name == "CPUTimeRAW") return std::to_string(cpu_seconds);
  if (name == "TotalCPU") return line.ended == 0 ? "00:00:00" : clock_time(elapsed(world, line));
  if (name.starts_with("Timelimit") && line.batch) return "";
  if (name == "Timelimit") return limit == 0 ? "UNLIMITED" : clock_time(limit * 60);
  if (name == "TimelimitRaw") return limit == 0 ? "UNLIMITED" : std::to_string(limit);
  return "";
}

std::string field_text(const std::string& name, const World& world, const Line& line) {
  const Request& request = line.record.job->request;
  const Task& task = line.record.front();
  const std::string step = line.batch ? ".batch" : "";
  const bool allocated = !line.shares->empty();
  const std::string nodes = std::to_string(std::max<size_t>(1, line.shares->size()));
  if (name == "JobID") return line.record.id() + step;
  if (name == "JobIDRaw") return std::to_string(line.record.raw_id()) + step;
  if (name == "JobName") return line.batch ? "batch" : request.name;
  if (name == "State") return state_text(line);
  if (name == "ExitCode") {
    if (was_killed(line) && line.batch) return "0:15";
    return std::to_string(task.exit_code) + ":" + std::to_string(task.exit_signal);
  }
  if (name == "NodeList") return allocated ? host_list(*line.shares) : "None assigned";
  if (name == "AllocCPUS" || name == "NCPUS")
    return allocated ? std::to_string(line_cpus(world, line)) : "0";
  if (name == "ReqCPUS") return std::to_string(cpus_of(world, *line.record.job, task));
  if (name == "AllocNodes") return allocated ? nodes : "0";
  if (name == "NNodes") return line.batch ? "1" : nodes;
  if (name == "NTasks") return line.batch ? "1" : "";
  if (name == "ConsumedEnergyRaw") return line.ended != 0 && !line.batch ? "1800" : "0";
  if (name == "MaxRSS") return line.batch && line.ended != 0 ? "2048K" : "";
  if (name == "ReqMem") return requested_memory(line, world.config.version);
  if (name == "Account") return request.account;
  if (name == "Cluster") return world.config.cluster;
  if (line.batch && name != "Start" && name != "End" && time_field(name, world, line).empty())
    return "";
  if (name == "Reason") return task.reason;
  if (name == "Restarts") return std::to_string(task.restarts);
  if (name == "User") return request.user;
  if (name == "UID") return std::to_string(user_id(request.user));
  if (name == "Comment") return request.comment;
  if (name == "Partition") return request.partition;
  if (name == "QOS") return request.qos.empty() ? "normal" : request.qos;
  if (name == "WCKey") return request.wckey;
  if (name == "WorkDir") return request.directory;
  return time_field(name, world, line);
}

struct Column {
  const Field* field;
  int width;
};

/// `jobid,state%20`: by any beginning of a field's name, in any case. Throws Failure.
std::vector<Column> columns(const std::string& format, int version) {
  std::vector<Column> list;
  for (const std::string& word : split(format, ',')) {
    const size_t percent = word.find('%');
    const std::string name(trim(word.substr(0, percent)));
    if (name.empty()) continue;
    const Field* found = nullptr;
    for (const Field& field : kFields) {
      const bool matches = ::strncasecmp(field.name, name.c_str(), name.size()) == 0;
      if (matches && version >= field.since && found == nullptr) found = &field;
    }
    if (found == nullptr) throw Failure{"Invalid field requested: \"" + name + "\""};
    const int width = percent == word.npos ? found->width : std::atoi(word.c_str() + percent + 1);
    list.push_back({found, width});
  }
  return list;
}

/// What is asked for: [start, end) of the clock, jobs, names, states, users.
struct Query {
  Seconds start = 0, end = 0;
  std::vector<std::string> jobs, names, states, users;
  bool duplicates = false, steps = true;
};

Seconds time_option(const std::string& text, Seconds now) {
  const auto time = parse_time(text, now);
  if (!time) throw Failure{"Invalid time specification (pos=0): " + text};
  return *time;
}

/// With -j all of time; without, since midnight; with --state alone, this instant.
Query query_of(const Words& words, Seconds now) {
  Query query;
  bool everybody = ::getuid() == 0;
  for (const auto& [option, value] : words.options) {
    if (option == "jobs") query.jobs = split(value, ',');
    if (option == "name") query.names = split(value, ',');
    if (option == "state") query.states = split(value, ',');
    if (option == "user" || option == "uid") query.users = split(value, ',');
    if (option == "allusers") everybody = true;
    if (option == "starttime") query.start = time_option(value, now);
    if (option == "endtime") query.end = time_option(value, now);
  }
  query.duplicates = words.has("duplicates");
  query.steps = !words.has("allocations");
  if (query.users.empty() && query.jobs.empty() && !everybody) query.users = {user_name()};
  if (!query.states.empty()) {
    if (query.start == 0 && query.jobs.empty()) query.start = now;
    if (query.start != 0 && query.end == 0) query.end = query.start;
  } else if (query.jobs.empty() && query.start == 0) {
    query.start = parse_time("midnight", now).value();
  }
  if (query.end == 0) query.end = now;
  if (query.end == query.start || query.end == now) ++query.end;
  return query;
}

bool named(const std::vector<std::string>& list, const std::string& word) {
  return list.empty() || std::find(list.begin(), list.end(), word) != list.end();
}

bool wanted(const Query& query, const Line& line) {
  const Job& job = *line.record.job;
  const std::string id = std::to_string(job.id);
  const std::string raw_id = std::to_string(line.record.raw_id());
  bool chosen = query.jobs.empty();
  for (const std::string& text : query.jobs) {
    const std::string one = text.substr(0, text.find('.'));
    chosen = chosen || one == id || one == raw_id;
    for (const Task* task : line.record.tasks) {
      chosen = chosen || one == id + "_" + std::to_string(task->index);
    }
  }
  bool in_state = query.states.empty();
  for (const std::string& state : query.states) {
    in_state = in_state || ::strcasecmp(state.c_str(), line.state.c_str()) == 0 ||
               ::strcasecmp(state.c_str(), short_state(line.state).c_str()) == 0;
  }
  // Accounting knows when a job became eligible; one that never was is found by its number alone.
  const Seconds eligible = std::max(line.record.front().eligible, line.started);
  const bool ended_before = line.ended != 0 && line.ended < query.start;
  const bool in_window =
      !query.jobs.empty() && query.start == 0
          ? true
          : (eligible != 0 || !query.jobs.empty()) && eligible < query.end && !ended_before;
  return chosen && in_state && in_window && named(query.names, job.request.name) &&
         named(query.users, job.request.user);
}

/// The records of accounting: purged or not, earlier passes first.
std::vector<Line> all_lines(const World& world) {
  std::vector<Line> lines;
  for (const Job& job : world.jobs) {
    Record pending{&job, {}, true};
    for (const Task& task : job.tasks) {
      const Record alone{&job, {&task}, false};
      for (const Pass& pass : task.passes) {
        lines.push_back(
            {alone, pass.state, pass.submitted, pass.started, pass.ended, &pass.shares});
      }
      if (task.raw_id == 0) {
        pending.tasks.push_back(&task);
        continue;
      }
      lines.push_back(
          {alone, name(task.state), task.submitted, task.started, task.ended, &task.shares});
    }
    if (pending.tasks.empty()) continue;
    const Task& task = pending.front();
    lines.push_back({pending, "PENDING", task.submitted, 0, 0, &task.shares});
  }
  return lines;
}

/// `mark`: a `+` ends what is cut off.
std::string row(const std::vector<Column>& columns, const Words& words, bool mark,
                const auto& text_of) {
  const bool ending = words.has("parsable");
  const std::string* given = words.find("delimiter");
  const std::string delimiter = given == nullptr ? "|" : *given;
  std::string line;
  for (size_t i = 0; i < columns.size(); ++i) {
    std::string text = text_of(columns[i]);
    if (ending || words.has("parsable2")) {
      line += text + (ending || i + 1 < columns.size() ? delimiter : "");
      continue;
    }
    const size_t width = size_t(std::abs(columns[i].width));
    if (text.size() > width) {
      text.resize(width);
      if (mark) text.back() = '+';
    }
    const std::string space(width - text.size(), ' ');
    line += (columns[i].width < 0 ? text + space : space + text) + " ";
  }
  return line + "\n";
}

void print_table(Call& call, const Query& query, const Words& words) {
  const World& world = call.world();
  const std::string* format = words.find("format");
  const char* otherwise = words.has("brief")
                              ? "jobid,state,exitcode"
                              : "jobid,jobname,partition,account,alloccpus,state,exitcode";
  const auto shown = columns(format == nullptr ? otherwise : *format, world.config.version);
  if (!words.has("noheader")) {
    call.out +=
        row(shown, words, false, [](const Column& c) { return std::string(c.field->name); });
    if (!words.has("parsable") && !words.has("parsable2")) {
      call.out += row(shown, words, false,
                      [](const Column& c) { return std::string(size_t(std::abs(c.width)), '-'); });
    }
  }
  for (Line line : all_lines(world)) {
    const bool earlier = line.shares != &line.record.front().shares;
    if ((earlier && !query.duplicates) || !wanted(query, line)) continue;
    const auto text = [&](const Column& c) { return field_text(c.field->name, world, line); };
    call.out += row(shown, words, true, text);
    line.batch = true;
    if (query.steps && !line.shares->empty()) call.out += row(shown, words, true, text);
  }
}

}  // namespace

int sacct(Call& call) {
  const auto words = parse_words(call.argv(), kOptions);
  if (!words) return 1;
  if (words->has("version")) {
    call.out = version_text(call.world().config.version) + "\n";
    return 0;
  }
  try {
    const Query query = query_of(*words, call.world().now);
    if (!call.world().config.accounting) {
      call.err = "Slurm accounting storage is disabled\n";
      return 1;
    }
    call.request(true);
    call.reply();
    print_table(call, query, *words);
    return 0;
  } catch (const Failure& failure) {
    if (!failure.text.starts_with("Invalid time")) return call.fail(failure.text);
    call.err = failure.text + "\n";
    return 1;
  } catch (const Unreachable& error) {
    const std::string host = call.world().config.cluster + "-db:6819";
    call.fail(
        "slurm_persist_conn_open_without_init: failed to open persistent connection to host:" +
        host + ": " + error.text);
    call.fail("Sending PersistInit msg: " + error.text);
    return call.fail("Problem talking to the database: " + error.text);
  }
}

}  // namespace dlflow::fake_slurm
