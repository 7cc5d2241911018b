#include "tests/support/fake_slurm/format.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>

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

/// Returns "0-20:2" if SLURM would print a stride, otherwise "".
std::string stride(const std::vector<int>& indices) {
  if (indices.size() <= 5 || indices.back() - indices.front() <= 10) return "";
  const int step = indices[1] - indices[0];
  for (size_t i = 1; i < indices.size(); ++i) {
    if (indices[i] - indices[i - 1] != step) return "";
  }
  return step == 1 ? "" : print("%d-%d:%d", indices.front(), indices.back(), step);
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

std::string host_list(const std::vector<Share>& shares) {
  if (shares.empty()) return "";
  const size_t digits = shares.front().node.find_last_not_of("0123456789") + 1;
  std::vector<int> numbers;
  for (const Share& share : shares) numbers.push_back(std::atoi(share.node.c_str() + digits));
  const std::string list = ranges(numbers);
  return shares.front().node.substr(0, digits) + (numbers.size() == 1 ? list : "[" + list + "]");
}

std::string Record::indices() const {
  if (!shared) return std::to_string(front().index);
  std::vector<int> list;
  for (const Task* task : tasks) list.push_back(task->index);
  std::string text = stride(list);
  if (text.empty()) {
    text = ranges(list);
    const char* variable = std::getenv("SLURM_BITSTR_LEN");
    const size_t length = variable == nullptr ? 64 : size_t(std::atoi(variable));
    if (length > 3 && text.size() > length - 3) text = text.substr(0, length - 4) + "...";
  }
  const int throttle = job->request.throttle;
  return throttle > 0 ? text + "%" + std::to_string(throttle) : text;
}

std::string Record::id() const {
  const std::string id = std::to_string(job->id);
  if (!job->is_array()) return id;
  return id + (shared ? "_[" + indices() + "]" : "_" + indices());
}

std::vector<Record> records(const World& world) {
  std::vector<Record> list;
  for (const Job& job : world.jobs) {
    Record pending{&job, {}, true};
    for (const Task& task : job.tasks) {
      if (task.raw_id == 0) {
        pending.tasks.push_back(&task);
      } else {
        list.push_back({&job, {&task}, false});
      }
    }
    if (!pending.tasks.empty()) list.push_back(pending);
  }
  return list;
}

}  // namespace dlflow::fake_slurm
