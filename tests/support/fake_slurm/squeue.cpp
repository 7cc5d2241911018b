#include <getopt.h>
#include <strings.h>

#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "tests/support/fake_slurm/call.h"
#include "tests/support/fake_slurm/format.h"
#include "tests/support/fake_slurm/options.h"

namespace dlflow::fake_slurm {
namespace {

constexpr Option kOptions[] = {{"accounts", 'A', required_argument},
                               {"all", 'a', no_argument},
                               {"array", 'r', no_argument},
                               {"format", 'o', required_argument},
                               {"hide", 0, no_argument},
                               {"jobs", 'j', required_argument},
                               {"local", 0, no_argument},
                               {"long", 'l', no_argument},
                               {"me", 0, no_argument},
                               {"name", 'n', required_argument},
                               {"noconvert", 0, no_argument},
                               {"noheader", 'h', no_argument},
                               {"partition", 'p', required_argument},
                               {"partitions", 0, required_argument},
                               {"qos", 'q', required_argument},
                               {"sort", 'S', required_argument},
                               {"states", 't', required_argument},
                               {"user", 'u', required_argument},
                               {"users", 0, required_argument},
                               {"version", 'V', no_argument}};

/// The job lists and filters of a command line.
struct Filter {
  std::vector<std::string> jobs, names, states, users, partitions;
  bool all_states = false;
};

struct BadFilter {
  std::string text;
};

bool equal(const std::string& a, const std::string& b) {
  return ::strcasecmp(a.c_str(), b.c_str()) == 0;
}

bool among(const std::vector<std::string>& list, const std::string& word) {
  return std::any_of(list.begin(), list.end(), [&](const auto& one) { return equal(one, word); });
}

Filter filter_of(const Words& words) {
  Filter filter;
  for (const auto& [option, value] : words.options) {
    const std::vector<std::string> list = split(value, ',');
    if (option == "jobs") filter.jobs = list;
    if (option == "name") filter.names = list;
    if (option.starts_with("user")) filter.users = list;
    if (option.starts_with("partition")) filter.partitions = list;
    if (option == "me") filter.users = {user_name()};
    if (option == "states") filter.states = list;
  }
  for (const std::string& job : filter.jobs) {
    if (std::atoi(job.c_str()) <= 0) throw BadFilter{"Invalid job id: " + job};
  }
  filter.all_states = filter.states.size() == 1 && equal(filter.states.front(), "all");
  for (const std::string& state : filter.states) {
    std::string word = state;
    std::transform(word.begin(), word.end(), word.begin(), ::toupper);
    bool known = filter.all_states || short_state(word) != "?";
    for (const char* letters : {"PD", "R", "CF", "CG", "CD", "F", "TO", "CA", "NF", "PR", "OOM",
                                "S", "SUSPENDED", "BF", "BOOT_FAIL", "DL", "DEADLINE", "RQ"}) {
      known = known || word == letters;
    }
    if (!known) throw BadFilter{"Invalid job state specified: " + state};
  }
  return filter;
}

bool chosen(const Filter& filter, const Job& job, const Task& task) {
  if (filter.jobs.empty()) return true;
  const std::string id = std::to_string(job.id);
  return among(filter.jobs, id) || among(filter.jobs, id + "_" + std::to_string(task.index)) ||
         (task.raw_id != 0 && among(filter.jobs, std::to_string(task.raw_id)));
}

bool passes(const Filter& filter, const World& world, const Job& job, const Task& task) {
  const std::string state = shown_state(world, task);
  if (filter.states.empty()) {
    if (is_final(task.state) && state != "COMPLETING") return false;
  } else if (!filter.all_states && !among(filter.states, state) &&
             !among(filter.states, short_state(state))) {
    return false;
  }
  return chosen(filter, job, task) &&
         (filter.names.empty() || among(filter.names, job.request.name)) &&
         (filter.users.empty() || among(filter.users, job.request.user)) &&
         (filter.partitions.empty() || among(filter.partitions, job.request.partition));
}

/// The records to print: pending tasks together unless `each` is asked for.
std::vector<Record> lines(const World& world, const Filter& filter, bool each) {
  std::vector<Record> list;
  for (Record& record : records(world)) {
    std::erase_if(record.tasks,
                  [&](const Task* task) { return !passes(filter, world, *record.job, *task); });
    if (record.tasks.empty()) continue;
    if (each && record.shared) {
      for (const Task* task : record.tasks) list.push_back({record.job, {task}, false});
      continue;
    }
    const bool waits = record.job->is_array() && record.front().state == State::Pending;
    Record* before = list.empty() ? nullptr : &list.back();
    if (!each && waits && before != nullptr && before->shared && before->job == record.job) {
      before->tasks.push_back(record.tasks.front());  // a task with its own record, told with them
    } else {
      list.push_back(std::move(record));
    }
  }
  for (Record& record : list) {  // one task that was asked for by its number
    if (record.tasks.size() == 1 && among(filter.jobs, std::to_string(record.job->id) + "_" +
                                                           std::to_string(record.front().index))) {
      record.shared = false;
    }
  }
  std::stable_sort(list.begin(), list.end(), [](const Record& a, const Record& b) {
    if (a.job->request.partition != b.job->request.partition) {
      return a.job->request.partition < b.job->request.partition;
    }
    return a.front().state < b.front().state;  // SLURM's default order: P,t,-p
  });
  return list;
}

std::string reason(const Record& record) {
  std::string text;
  for (const Task* task : record.tasks) {
    if (text.find(task->reason) == text.npos) text += (text.empty() ? "" : ",") + task->reason;
  }
  return text;
}

std::string or_null(const std::string& text) { return text.empty() ? "(null)" : text; }

Seconds run_time(const World& world, const Task& task) {
  if (task.state == State::Pending) return 0;
  return (task.ended != 0 ? task.ended : world.now) - task.started;
}

std::string end_time(const World& world, const Record& record) {
  const Task& task = record.front();
  const int limit = limit_minutes(world, record.job->request);
  if (task.state == State::Pending) return "N/A";
  if (task.ended != 0) return date(task.ended);
  return limit == 0 ? "NONE" : date(task.started + limit * 60);
}

std::string nodes_or_reason(const Record& record) {
  const State state = record.front().state;
  const bool failed =
      state == State::Failed || state == State::Timeout || state == State::OutOfMemory;
  if (state == State::Pending || failed) return "(" + reason(record) + ")";
  return host_list(record.front().shares);
}

std::string job_field(char letter, const Record& record) {
  const Job& job = *record.job;
  const Request& request = job.request;
  switch (letter) {
    case 'i':
      return record.id();
    case 'A':
      return std::to_string(record.raw_id());
    case 'F':
      return std::to_string(job.id);
    case 'K':
      return job.is_array() ? record.indices() : "N/A";
    case 'j':
      return request.name;
    case 'k':
      return or_null(request.comment);
    case 'E':
      return or_null(to_text(record.front().dependencies));
    case 'u':
      return request.user;
    case 'U':
      return std::to_string(user_id(request.user));
    case 'P':
      return request.partition;
    case 'a':
      return or_null(request.account);
    case 'q':
      return request.qos.empty() ? "normal" : request.qos;
    case 'v':
      return or_null(request.reservation);
    case 'w':
      return or_null(request.wckey);
    case 'o':
      return or_null(request.script_path);
    case 'Z':
      return request.directory;
    case 'f':
      return or_null(request.constraint);
    default:
      return "";
  }
}

std::string task_field(char letter, const World& world, const Record& record) {
  const Task& task = record.front();
  const std::string state = shown_state(world, task);
  const int limit = limit_minutes(world, record.job->request);
  switch (letter) {
    case 'T':
      return state;
    case 't':
      return short_state(state);
    case 'r':
      return reason(record);
    case 'R':
      return nodes_or_reason(record);
    case 'N':
      return host_list(task.shares);
    case 'M':
      return stop_watch(run_time(world, task));
    case 'l':
      return limit == 0 ? "UNLIMITED" : stop_watch(limit * 60);
    case 'L':
      return limit == 0 ? "UNLIMITED" : stop_watch(limit * 60 - run_time(world, task));
    case 'S':
      return task.started == 0 ? "N/A" : date(task.started);
    case 'V':
      return date(task.submitted);
    case 'e':
      return end_time(world, record);
    case 'D':
      return std::to_string(nodes_of(world, *record.job, task));
    case 'C':
      return std::to_string(cpus_of(world, *record.job, task));
    case 'Q':
      return task.held ? "0" : std::to_string(4294901760u - record.job->id);
    case 'p':
      return task.held ? "0.00000000000000" : "0.99998474074527";
    default:
      return "";
  }
}

constexpr std::pair<char, const char*> kHeaders[] = {{'i', "JOBID"},
                                                     {'A', "JOBID"},
                                                     {'F', "ARRAY_JOB_ID"},
                                                     {'K', "ARRAY_TASK_ID"},
                                                     {'j', "NAME"},
                                                     {'k', "COMMENT"},
                                                     {'E', "DEPENDENCY"},
                                                     {'u', "USER"},
                                                     {'U', "UID"},
                                                     {'P', "PARTITION"},
                                                     {'a', "ACCOUNT"},
                                                     {'q', "QOS"},
                                                     {'v', "RESERVATION"},
                                                     {'w', "WCKEY"},
                                                     {'o', "COMMAND"},
                                                     {'Z', "WORK_DIR"},
                                                     {'f', "FEATURES"},
                                                     {'T', "STATE"},
                                                     {'t', "ST"},
                                                     {'r', "REASON"},
                                                     {'R', "NODELIST(REASON)"},
                                                     {'N', "NODELIST"},
                                                     {'M', "TIME"},
                                                     {'l', "TIME_LIMIT"},
                                                     {'L', "TIME_LEFT"},
                                                     {'S', "START_TIME"},
                                                     {'V', "SUBMIT_TIME"},
                                                     {'e', "END_TIME"},
                                                     {'D', "NODES"},
                                                     {'C', "CPUS"},
                                                     {'Q', "PRIORITY"},
                                                     {'p', "PRIORITY"}};

/// One % of a format: %.18i, and the text behind it.
struct Field {
  char letter = 0;
  size_t width = 0;
  bool right = false;
  std::string behind;
};

std::vector<Field> parse_format(const std::string& format) {
  std::vector<Field> fields;
  for (size_t at = format.find('%'); at < format.size();) {
    Field field;
    ++at;
    if (at < format.size() && format[at] == '.') field.right = true;
    if (field.right) ++at;
    while (at < format.size() && std::isdigit(format[at]) != 0) {
      field.width = field.width * 10 + size_t(format[at++] - '0');
    }
    if (at < format.size()) field.letter = format[at++];
    const size_t next = std::min(format.find('%', at), format.size());
    field.behind = format.substr(at, next - at);
    fields.push_back(field);
    at = next;
  }
  return fields;
}

std::string fitted(std::string text, const Field& field) {
  if (field.width == 0) return text;
  const bool whole =
      field.letter == 'N' || field.letter == 'l' || field.letter == 'M' || field.letter == 'L';
  if (text.size() > field.width && !whole) text.resize(field.width);
  const std::string space(field.width - std::min(field.width, text.size()), ' ');
  return field.right ? space + text : text + space;
}

std::string header(const std::vector<Field>& fields) {
  std::string line;
  for (const Field& field : fields) {
    for (const auto& [letter, name] : kHeaders) {
      if (letter == field.letter) line += fitted(name, field);
    }
    line += field.behind;
  }
  return line + "\n";
}

void print_table(Call& call, const Filter& filter, const Words& words) {
  const std::string* given = words.find("format");
  const bool is_long = words.has("long");
  const auto fields = parse_format(given != nullptr ? *given
                                   : is_long        ? "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
                                                    : "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R");
  if (!words.has("noheader")) call.out += header(fields);
  for (const Record& record : lines(call.world(), filter, words.has("array"))) {
    for (const Field& field : fields) {
      std::string text = job_field(field.letter, record);
      if (text.empty()) text = task_field(field.letter, call.world(), record);
      call.out += fitted(text, field) + field.behind;
    }
    call.out += "\n";
  }
}

}  // namespace

int squeue(Call& call) {
  const auto words = parse_words(call.argv(), kOptions);
  if (!words) {
    call.err += "Try \"squeue --help\" for more information\n";
    return 1;
  }
  if (words->has("version")) {
    call.out = version_text(call.world().config.version) + "\n";
    return 0;
  }
  try {
    if (!words->rest.empty()) throw BadFilter{"Unrecognized option: " + words->rest.front()};
    const Filter filter = filter_of(*words);
    call.request();
    if (filter.jobs.size() == 1 &&
        find(call.world(), filter.jobs.front().substr(0, filter.jobs.front().find('_'))).empty()) {
      throw Unreachable{"Invalid job id specified"};  // of several, the unknown are passed over
    }
    call.reply();
    print_table(call, filter, *words);
    return 0;
  } catch (const BadFilter& bad) {
    return call.fail(bad.text);
  } catch (const Unreachable& error) {
    call.err += "slurm_load_jobs error: " + error.text + "\n";
    return 1;
  }
}

}  // namespace dlflow::fake_slurm
