#include "tests/support/fake_slurm/format.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>

#include "base/text.h"

namespace dlflow::fake_slurm {
namespace {

template <typename... Args>
std::string print(const char* format, Args... args) {
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), format, args...);
  return text.data();
}

std::tm local(Seconds time) {
  const std::time_t value = time;
  std::tm fields{};
  ::localtime_r(&value, &fields);
  return fields;
}

std::string ranges(const std::vector<int>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ",";
    text += std::to_string(numbers[i]);
    if (last > i) text += "-" + std::to_string(numbers[last]);
    i = last + 1;
  }
  return text;
}

/// 0-20:2, where SLURM prints it so; else "".
std::string stride(const std::vector<int>& indices) {
  if (indices.size() <= 5 || indices.back() - indices.front() <= 10) return "";
  const int step = indices[1] - indices[0];
  for (size_t i = 1; i < indices.size(); ++i) {
    if (indices[i] - indices[i - 1] != step) return "";
  }
  return step == 1 ? "" : print("%d-%d:%d", indices.front(), indices.back(), step);
}

/// now-2hours: the seconds behind "now", or nothing.
std::optional<Seconds> parse_offset(const std::string& text) {
  if (text.empty()) return 0;
  char* unit = nullptr;
  const long count = std::strtol(text.c_str(), &unit, 10);
  const std::string word = unit;
  constexpr std::pair<const char*, Seconds> kUnits[] = {
      {"second", 1}, {"minute", 60}, {"hour", 3600}, {"day", 86400}, {"week", 7 * 86400}};
  if (word.empty()) return count;
  for (const auto& [name, seconds] : kUnits) {
    if (word == name || word == std::string(name) + "s") return count * seconds;
  }
  return std::nullopt;
}

}  // namespace

std::string date(Seconds time) {
  if (time == 0) return "Unknown";
  const std::tm t = local(time);
  return print("%04d-%02d-%02dT%02d:%02d:%02d", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday,
               t.tm_hour, t.tm_min, t.tm_sec);
}

std::string clock_time(Seconds duration) {
  const long days = long(duration / 86400);
  const std::string rest = print("%02d:%02d:%02d", int(duration / 3600 % 24),
                                 int(duration / 60 % 60), int(duration % 60));
  return days > 0 ? std::to_string(days) + "-" + rest : rest;
}

std::string stop_watch(Seconds duration) {
  const int minutes = int(duration / 60 % 60);
  const int seconds = int(duration % 60);
  if (duration >= 86400) return clock_time(duration);
  if (duration < 3600) return print("%d:%02d", minutes, seconds);
  return print("%d:%02d:%02d", int(duration / 3600), minutes, seconds);
}

std::optional<int> parse_minutes(const std::string& text) {
  if (text == "UNLIMITED" || text == "INFINITE" || text == "-1") return 0;
  const auto odd = [](char c) { return std::isdigit(c) == 0 && c != ':' && c != '-'; };
  if (text.empty() || std::any_of(text.begin(), text.end(), odd)) return std::nullopt;
  int days = 0, first = 0, second = 0, third = 0;
  int seconds = 0;
  if (text.find('-') != std::string::npos) {
    std::sscanf(text.c_str(), "%d-%d:%d:%d", &days, &first, &second, &third);
    seconds = days * 86400 + first * 3600 + second * 60 + third;
  } else if (std::sscanf(text.c_str(), "%d:%d:%d", &first, &second, &third) == 3) {
    seconds = first * 3600 + second * 60 + third;
  } else {
    seconds = first * 60 + second;
  }
  return (seconds + 59) / 60;
}

std::optional<Seconds> parse_time(const std::string& text, Seconds now) {
  if (text.starts_with("now")) {
    const auto offset = parse_offset(text.substr(3));
    if (!offset) return std::nullopt;
    return now + *offset;
  }
  std::tm t = local(now);
  t.tm_isdst = -1;
  t.tm_hour = t.tm_min = t.tm_sec = 0;
  if (text == "midnight" || text == "today") return std::mktime(&t);
  int used = 0;
  const char* rest = text.c_str();
  if (std::sscanf(rest, "%4d-%2d-%2d%n", &t.tm_year, &t.tm_mon, &t.tm_mday, &used) == 3 &&
      used > 0) {
    t.tm_year -= 1900;
    t.tm_mon -= 1;
    rest += used;
    if (*rest == 'T' || *rest == '-') ++rest;
    if (*rest == '\0') return std::mktime(&t);
  } else {
    t = local(now);
    t.tm_sec = 0;
  }
  const int fields = std::sscanf(rest, "%2d:%2d%n", &t.tm_hour, &t.tm_min, &used);
  if (fields != 2) return std::nullopt;
  rest += used;
  if (std::sscanf(rest, ":%2d%n", &t.tm_sec, &used) == 1) rest += used;
  if (*rest != '\0') return std::nullopt;
  return std::mktime(&t);
}

std::string index_list(const std::vector<int>& indices, int throttle) {
  std::string text = stride(indices);
  if (text.empty()) {
    text = ranges(indices);
    const char* variable = std::getenv("SLURM_BITSTR_LEN");
    const size_t length = variable == nullptr ? 64 : size_t(std::atoi(variable));
    if (length > 3 && text.size() > length - 3) text = text.substr(0, length - 4) + "...";
  }
  return throttle > 0 ? text + "%" + std::to_string(throttle) : text;
}

std::string host_list(const std::vector<std::string>& names) {
  std::map<std::string, std::vector<int>> numbered;
  std::vector<std::string> parts;
  for (const std::string& name : names) {
    const size_t digits = name.find_last_not_of("0123456789") + 1;
    if (digits == name.size()) {
      parts.push_back(name);
    } else {
      numbered[name.substr(0, digits)].push_back(std::atoi(name.c_str() + digits));
    }
  }
  for (auto& [prefix, numbers] : numbered) {
    std::sort(numbers.begin(), numbers.end());
    const std::string list = ranges(numbers);
    parts.push_back(prefix + (numbers.size() == 1 ? list : "[" + list + "]"));
  }
  return join(parts, ",");
}

std::string host_list(const std::vector<Share>& shares) {
  std::vector<std::string> names;
  for (const Share& share : shares) names.push_back(share.node);
  return host_list(names);
}

int cpus_of(const World&, const Job& job, const Task& task) {
  if (task.shares.empty()) {
    return std::max(job.request.tasks, job.request.nodes) * job.request.cpus_per_task;
  }
  int cpus = 0;
  for (const Share& share : task.shares) cpus += share.cpus;
  return cpus;
}

int nodes_of(const World&, const Job& job, const Task& task) {
  return task.shares.empty() ? std::max(1, job.request.nodes) : int(task.shares.size());
}

std::string memory(int64_t megabytes) {
  if (megabytes > 0 && megabytes % 1024 == 0) return std::to_string(megabytes / 1024) + "G";
  return std::to_string(megabytes) + "M";
}

std::string version_text(int version) {
  return print("slurm %02d.%02d.%d", version / 100, version % 100, version == 2205 ? 8 : 0);
}

std::string Record::indices() const {
  if (!shared) return std::to_string(front().index);
  std::vector<int> list;
  for (const Task* task : tasks) list.push_back(task->index);
  std::sort(list.begin(), list.end());
  return index_list(list, job->request.throttle);
}

std::string Record::id() const {
  const std::string id = std::to_string(job->id);
  if (!job->is_array()) return id;
  return id + (shared ? "_[" + indices() + "]" : "_" + indices());
}

JobId Record::raw_id() const { return front().raw_id == 0 ? job->id : front().raw_id; }

std::vector<Record> records(const World& world) {
  std::vector<Record> list;
  for (const Job& job : world.jobs) {
    Record pending{&job, {}, true};
    std::vector<const Task*> own;  // pending, with a record of their own
    for (const Task& task : job.tasks) {
      if (task.purged) continue;
      const bool waits = task.state == State::Pending;
      if (waits && task.raw_id == 0) {
        pending.tasks.push_back(&task);
      } else if (waits && job.is_array()) {
        own.push_back(&task);
      } else {
        list.push_back({&job, {&task}, false});
      }
    }
    if (!pending.tasks.empty()) list.push_back(pending);
    for (const Task* task : own) list.push_back({&job, {task}, false});
  }
  return list;
}

}  // namespace dlflow::fake_slurm
