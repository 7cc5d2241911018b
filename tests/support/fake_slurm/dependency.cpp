#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "tests/support/fake_slurm/job.h"

// The text of --dependency: parsed as slurmctld does, printed as squeue does.
namespace dlflow::fake_slurm {
namespace {

using Type = Dependency::Type;

constexpr std::array<std::pair<std::string_view, Type>, 3> kTypes = {
    {{"aftercorr", Type::AfterCorr}, {"afterany", Type::AfterAny}, {"afterok", Type::AfterOk}}};

template <typename T>
bool read_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::optional<std::vector<Dependency>> parse_dependencies(const std::string& text) {
  std::vector<Dependency> list;
  if (text.empty()) return list;
  for (const std::string& condition : split(text, ',')) {
    const std::vector<std::string> words = split(condition, ':');
    const auto* const known = std::find_if(
        kTypes.begin(), kTypes.end(), [&](const auto& type) { return type.first == words[0]; });
    if (known == kTypes.end() || words.size() < 2) return std::nullopt;
    for (size_t i = 1; i < words.size(); ++i) {  // "5" or "5_3"
      Dependency parent{known->second};
      const std::string_view word = words[i];
      const size_t bar = word.find('_');
      if (!read_number(word.substr(0, bar), parent.job) || parent.job == 0) return std::nullopt;
      if (bar != word.npos && !read_number(word.substr(bar + 1), parent.task)) return std::nullopt;
      list.push_back(parent);
    }
  }
  return list;
}

std::string to_text(const std::vector<Dependency>& dependencies) {
  std::string text;
  for (const Dependency& d : dependencies) {
    if (d.mark == Dependency::Mark::Fulfilled) continue;
    if (!text.empty()) text += ",";
    for (const auto& [word, type] : kTypes) {
      if (type == d.type) text += word;
    }
    text += ":" + std::to_string(d.job);
    if (d.task == kAllTasks) text += "_*";
    if (d.task >= 0) text += "_" + std::to_string(d.task);
    text += d.mark == Dependency::Mark::Failed ? "(failed)" : "(unfulfilled)";
  }
  return text;
}

}  // namespace dlflow::fake_slurm
