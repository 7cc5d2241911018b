#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "tests/support/fake_slurm/job.h"

// The text of --dependency: read as slurmctld reads it, written as squeue shows it.
namespace dlflow::fake_slurm {
namespace {

using Type = Dependency::Type;

constexpr std::array<std::pair<std::string_view, Type>, 5> kTypes = {
    {{"afternotok", Type::AfterNotOk},
     {"aftercorr", Type::AfterCorr},
     {"afterany", Type::AfterAny},
     {"afterok", Type::AfterOk},
     {"after", Type::After}}};

/// Takes a number from the front of `text`.
template <typename T>
bool take(std::string_view& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return false;
  text.remove_prefix(size_t(end - text.data()));
  return true;
}

bool take(std::string_view& text, char letter) {
  if (!text.starts_with(letter)) return false;
  text.remove_prefix(1);
  return true;
}

/// 5, 5_3, 5_*, 5_[3-4,7], 5+10, each with an optional (unfulfilled) behind it.
bool take_job(std::string_view& text, Dependency parent, std::vector<Dependency>& list) {
  if (!take(text, parent.job) || parent.job == 0) return false;
  std::vector<std::pair<int, int>> tasks = {{-1, -1}};
  const bool of_array = take(text, '_');
  if (of_array && take(text, '*')) {
    tasks = {{kAllTasks, kAllTasks}};
  } else if (of_array) {
    tasks.clear();
    const bool several = take(text, '[');
    do {
      int first = 0;
      if (!take(text, first)) return false;
      int last = first;
      if (take(text, '-') && !take(text, last)) return false;
      tasks.emplace_back(first, last);
    } while (several && take(text, ','));
    if (several && !take(text, ']')) return false;
  }
  if (take(text, '+') && !take(text, parent.minutes)) return false;
  if (take(text, '(')) {
    const size_t end = text.find(')');
    if (end == text.npos) return false;
    if (text.substr(0, end) == "failed") parent.mark = Dependency::Mark::Failed;
    text.remove_prefix(end + 1);
  }
  for (const auto& [first, last] : tasks) {
    for (parent.task = first; parent.task <= last; ++parent.task) list.push_back(parent);
  }
  return true;
}

bool take_condition(std::string_view& text, std::vector<Dependency>& list) {
  Dependency parent;
  if (text.starts_with("singleton")) {
    text.remove_prefix(9);
    parent.type = Type::Singleton;
    list.push_back(parent);
    return true;
  }
  for (const auto& [word, type] : kTypes) {
    if (!text.starts_with(word) || text.substr(word.size(), 1) != ":") continue;
    text.remove_prefix(word.size());
    parent.type = type;
    while (take(text, ':')) {
      if (!take_job(text, parent, list)) return false;
    }
    return true;
  }
  return take_job(text, parent, list);  // the old form, a job id alone: afterany
}

}  // namespace

std::optional<std::vector<Dependency>> parse_dependencies(const std::string& all) {
  std::vector<Dependency> list;
  if (all.empty() || all == "0") return list;
  std::string_view text = all;
  bool any = false;
  while (true) {
    if (!take_condition(text, list)) return std::nullopt;
    if (text.empty()) break;
    const char separator = text.front();
    if (separator != ',' && separator != '?') return std::nullopt;
    any = any || separator == '?';
    text.remove_prefix(1);
  }
  for (Dependency& dependency : list) dependency.any = any;
  return list;
}

std::string to_text(const std::vector<Dependency>& dependencies) {
  std::string text;
  for (const Dependency& d : dependencies) {
    if (d.mark == Dependency::Mark::Fulfilled) continue;
    if (!text.empty()) text += d.any ? '?' : ',';
    if (d.type == Type::Singleton) {
      text += "singleton";
    } else {
      for (const auto& [word, type] : kTypes) {
        if (type == d.type) text += word;
      }
      text += ":" + std::to_string(d.job);
      if (d.task == kAllTasks) text += "_*";
      if (d.task >= 0) text += "_" + std::to_string(d.task);
      if (d.minutes > 0) text += "+" + std::to_string(d.minutes);
    }
    text += d.mark == Dependency::Mark::Failed ? "(failed)" : "(unfulfilled)";
  }
  return text;
}

}  // namespace dlflow::fake_slurm
