#include "engine/report/run_table.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "engine/report/describe.h"
#include "engine/report/job_words.h"

namespace dlflow {
namespace {

/// A row of the live table: its lines, and its weight (heavier rows are kept longer).
struct Row {
  std::vector<std::string> lines;
  int weight = 0;
};

constexpr size_t kMaxName = 30;  // a longer one has lines of its own

Row job_row(const JobRow& job, const JobRow* above, const RunView& view, Time now,
            size_t name_width, const Style& style) {
  constexpr size_t kBadge = 12;
  constexpr size_t kTime = 8;
  const std::string indent(2 + name_width + 2 + kBadge + kTime + 2, ' ');
  const std::string time = job.started ? elapsed(job, now) : "";
  Row row;
  row.weight = job.state == JobState::Running ? 3 : went_wrong(job) ? 2 : waits(job) ? 0 : 1;
  const bool is_long = display_width(job.job) > std::max(name_width, kMaxName);
  std::string head = "  " + pad(is_long ? "" : job.job, name_width) + "  ";
  if (is_long) {  // above the rest
    for (const std::string& part : wrap_name(job.job, size_t(std::max(20, style.width - 2)))) {
      row.lines.push_back("  " + part);
    }
  }
  Style narrow = style;
  narrow.width = std::max<int>(20, style.width - int(indent.size()));
  const auto details_of = details(job, view, narrow, above);
  if (job.state == JobState::Planned) {
    const std::string what = details_of.empty() ? "waits" : details_of.front();
    row.lines.push_back(
        head + paint(job.state, std::string(symbol(job.state, style)) + " " + what, style));
    return row;
  }
  head += pad(badge(job.state, style), kBadge) +
          std::string(kTime - std::min(kTime, time.size()), ' ') + time + "  ";
  bool first = true;
  for (const std::string& detail : details_of) {
    const bool colored = detail.find('\033') != std::string::npos;
    for (const std::string& line :
         colored ? std::vector{detail} : wrap(detail, size_t(narrow.width))) {
      row.lines.push_back((first ? head : indent) + line);
      first = false;
    }
  }
  if (first) row.lines.push_back(head);
  return row;
}

/// The row of a step with too many elements to list.
Row step_row(std::span<const JobRow> jobs, size_t name_width, const Style& style) {
  const StepCounts counts(jobs);
  Row row;
  row.weight = 4;
  row.lines.push_back("  " + pad(jobs.front().step, name_width) + "  " +
                      paint(counts.look(), symbol(counts.look(), style), style) + " " +
                      progress_bar(double(counts.done) / double(counts.all), 16, style) + " " +
                      counts.text());
  return row;
}

/// Drops the lightest rows until the others fit, and adds their number.
std::vector<std::string> fit(std::vector<Row> rows, size_t max_lines, const Style& style) {
  const auto count = [&] {
    size_t lines = 0;
    for (const Row& row : rows) lines += row.lines.size();
    return lines;
  };
  size_t dropped = 0;
  for (int weight = 0; weight <= 4 && count() + (dropped > 0) > max_lines; ++weight) {
    for (size_t i = rows.size(); i-- > 0 && count() + 1 > max_lines;) {
      if (rows[i].weight != weight) continue;
      rows.erase(rows.begin() + std::ptrdiff_t(i));
      ++dropped;
    }
  }
  std::vector<std::string> lines;
  for (Row& row : rows) std::move(row.lines.begin(), row.lines.end(), std::back_inserter(lines));
  if (dropped > 0) lines.push_back(dim("  and " + format_count(dropped) + " more", style));
  return lines;
}

}  // namespace

std::vector<std::string> live_table(const RunView& view, Time now, size_t max_lines,
                                    const Style& style) {
  const auto is_listed = [](std::span<const JobRow> step, const JobRow& job) {
    const bool is_one_of_few = step.size() <= kListedElements;
    return (is_one_of_few || job.state == JobState::Running || went_wrong(job)) &&
           !never_began(job);
  };
  size_t name_width = 8;
  for (const auto step : by_step(view.status.jobs)) {
    for (const JobRow& job : step) {
      const size_t width = display_width(is_listed(step, job) ? job.job.text() : job.step);
      name_width = std::max(name_width, std::min(width, kMaxName));
    }
  }
  std::vector<Row> rows;
  for (const auto step : by_step(view.status.jobs)) {
    if (step.size() > kListedElements) rows.push_back(step_row(step, name_width, style));
    const JobRow* above = nullptr;
    for (const JobRow& job : step) {
      if (!is_listed(step, job)) continue;
      rows.push_back(job_row(job, std::exchange(above, &job), view, now, name_width, style));
    }
  }
  const auto never = std::ranges::count_if(view.status.jobs, never_began);
  const std::string which = never == 1 ? "it began" : "they began";
  if (never > 0) {
    rows.push_back({{"  " + format_count(uint64_t(never)) + " cancelled before " + which}, 1});
  }
  return fit(std::move(rows), max_lines, style);
}

}  // namespace dlflow
