#include "engine/report/run_list.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"
#include "base/units.h"
#include "engine/report/curves.h"
#include "engine/report/describe.h"
#include "engine/report/job_words.h"

namespace dlflow {
namespace {

/// "2/4 ✔ 1 ▶ 1 ·"
std::string counts(const std::map<JobState, size_t>& jobs, const Style& style) {
  size_t total = 0;
  size_t done = 0;
  std::map<std::string_view, size_t> others;  // by symbol, which several states may share
  for (const auto& [state, number] : jobs) {
    total += number;
    if (satisfies_dependents(state)) {
      done += number;
    } else {
      others[symbol(state, style)] += number;
    }
  }
  std::string text = std::to_string(done) + "/" + std::to_string(total) + " " +
                     std::string(symbol(JobState::Succeeded, style));
  for (const auto& [mark, number] : others) {
    text += " " + std::to_string(number) + " " + std::string(mark);
  }
  return text;
}

constexpr size_t kListColumns = 6;
constexpr size_t kRoomForNow = 16;  // the smallest last column beside the others
constexpr size_t kBelowRun = 4;     // the indent of text below its run

}  // namespace

std::string now_text(const RunStatus& status, const Style& style) {
  if (status.damaged) return "damaged: " + escaped(status.problem);
  const ProgressByJob progress = read_progress(status);
  for (const JobRow& job : status.jobs) {
    if (job.state == JobState::Running) {
      const auto found = progress.find(job.job);
      if (found == progress.end()) return job.job;
      Json plain = found->second;
      plain.erase("progress");  // no bar in a list
      plain.erase("total_bytes");
      const auto lines = describe_progress(plain, style);
      return lines.empty() ? job.job : job.job + " " + lines.front();
    }
  }
  if (status.state == RunState::Succeeded) return "";
  const JobRow* const wrong = first_wrong(status);
  return wrong == nullptr ? "" : wrong->job + " " + std::string(name(wrong->state));
}

std::string run_list(std::span<const RunSummary> runs,
                     const std::map<std::string, std::string>& now_texts, Time now,
                     const Style& style) {
  std::vector<std::array<std::string, kListColumns>> rows = {
      {"RUN", "ON", "STATE", "STEPS", "AGE", "NOW"}};
  for (const RunSummary& run : runs) {
    const auto text = now_texts.find(run.run);
    rows.push_back({run.run, run.profile, std::string(name(run.state)), counts(run.jobs, style),
                    format_age(now - run.started), text == now_texts.end() ? "" : text->second});
  }
  std::array<size_t, kListColumns> widths{};
  for (const auto& row : rows) {
    for (size_t i = 0; i < kListColumns; ++i)
      widths[i] = std::max(widths[i], display_width(row[i]));
  }
  size_t used = 0;  // by all columns but the last, including gaps
  for (size_t i = 0; i + 1 < kListColumns; ++i) used += widths[i] + 2;
  const size_t room = size_t(style.width) > used + kRoomForNow ? size_t(style.width) - used : 0;
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (size_t i = 0; i + 1 < kListColumns; ++i) {
      const std::string cell = pad(rows[r][i], widths[i]);
      line += (r > 0 && i == 2 ? paint(runs[r - 1].state, cell, style) : cell) + "  ";
    }
    const std::string& last = rows[r].back();
    const bool is_beside = r == 0 || display_width(last) <= room;
    text += trimmed_line(is_beside ? line + last : line);
    if (is_beside) continue;
    for (const std::string& part : wrap(last, size_t(style.width) - kBelowRun)) {
      text += std::string(kBelowRun, ' ') + part + "\n";
    }
  }
  return text;
}

}  // namespace dlflow
