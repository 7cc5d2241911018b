#include "engine/report/run_table.h"

#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "engine/report/describe.h"

namespace dlflow {
namespace {

bool waits(const JobRow& job) {
  return job.state == JobState::Planned || job.state == JobState::Submitting ||
         job.state == JobState::Queued;
}

bool went_wrong(const JobRow& job) {
  return is_final(job.state) && !satisfies_dependents(job.state) && job.state != JobState::Skipped;
}

/// What is said beside a job's state, the first line of it first.
std::vector<std::string> details(const JobRow& job, const RunView& view, const Style& style) {
  if (job.state == JobState::Running) {
    const auto progress = view.progress.find(job.job);
    if (progress != view.progress.end()) return describe_progress(progress->second, style);
    return {};
  }
  if (!job.reason.empty()) return {job.reason};
  if (waits(job)) {
    const auto needs = view.needs.find(job.step);
    std::vector<std::string> open;  // parents that are not done yet
    for (const JobRow& parent : view.status.jobs) {
      const bool needed =
          needs != view.needs.end() &&
          std::find(needs->second.begin(), needs->second.end(), parent.step) != needs->second.end();
      const bool listed = !open.empty() && open.back() == parent.step;
      if (needed && !listed && !satisfies_dependents(parent.state)) open.push_back(parent.step);
    }
    return {open.empty() ? "waits for a free place" : "waits for " + join(open, ", ")};
  }
  const std::string metrics = describe_metrics(job.metrics);
  return metrics.empty() ? std::vector<std::string>{} : std::vector<std::string>{metrics};
}

/// A row of the live table: its lines, and how much it has to say (more is kept longer).
struct Row {
  std::vector<std::string> lines;
  int weight = 0;
};

Row job_row(const JobRow& job, const RunView& view, Time now, size_t name_width,
            const Style& style) {
  constexpr size_t kBadge = 12;
  constexpr size_t kTime = 8;
  const std::string indent(2 + name_width + 2 + kBadge + kTime + 2, ' ');
  const std::string time = job.started ? elapsed(job, now) : "";
  Row row;
  row.weight = job.state == JobState::Running ? 3 : went_wrong(job) ? 2 : waits(job) ? 0 : 1;
  std::string head = "  " + pad(job.job, name_width) + "  ";
  const auto details_of = details(job, view, style);
  if (job.state == JobState::Planned) {
    const std::string what = details_of.empty() ? "waits" : details_of.front();
    row.lines.push_back(
        head + paint(job.state, std::string(symbol(job.state, style)) + " " + what, style));
    return row;
  }
  head += pad(badge(job.state, style), kBadge) + pad("", kTime - time.size()) + time + "  ";
  const size_t room = std::max<int>(20, style.width - int(indent.size()));
  bool first = true;
  for (const std::string& detail : details_of) {
    const bool colored = detail.find('\033') != std::string::npos;
    for (const std::string& line : colored ? std::vector{detail} : wrap(detail, room)) {
      row.lines.push_back((first ? head : indent) + line);
      first = false;
    }
  }
  if (first) row.lines.push_back(head);
  return row;
}

/// "  train     12/250 done, 2 running, 1 failed" for a step with too many elements to list.
Row step_row(std::span<const JobRow> jobs, size_t name_width, const Style& style) {
  size_t done = 0;
  size_t running = 0;
  size_t wrong = 0;
  for (const JobRow& job : jobs) {
    done += satisfies_dependents(job.state) || job.state == JobState::Skipped;
    running += job.state == JobState::Running;
    wrong += went_wrong(job);
  }
  const JobState look = wrong > 0             ? JobState::Failed
                        : running > 0         ? JobState::Running
                        : done == jobs.size() ? JobState::Succeeded
                                              : JobState::Planned;
  std::string text = format_count(done) + "/" + format_count(jobs.size()) + " done";
  if (running > 0) text += ", " + format_count(running) + " running";
  if (wrong > 0) text += ", " + format_count(wrong) + " failed";
  Row row;
  row.weight = 4;
  row.lines.push_back("  " + pad(jobs.front().step, name_width) + "  " +
                      paint(look, symbol(look, style), style) + " " +
                      progress_bar(double(done) / double(jobs.size()), 16, style) + " " + text);
  return row;
}

/// The jobs of each step, which stand together in plan order.
std::vector<std::span<const JobRow>> by_step(const std::vector<JobRow>& jobs) {
  std::vector<std::span<const JobRow>> steps;
  for (size_t begin = 0; begin < jobs.size();) {
    size_t end = begin + 1;
    while (end < jobs.size() && jobs[end].step == jobs[begin].step) ++end;
    steps.emplace_back(jobs.data() + begin, end - begin);
    begin = end;
  }
  return steps;
}

/// Drops the rows of least weight until they fit, and says how many.
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

std::string headline(const RunStatus& status, Time now, const Style& style) {
  size_t done = 0;
  for (const JobRow& job : status.jobs) done += satisfies_dependents(job.state);
  const std::string state = paint(status.state, name(status.state), style);
  std::string text = bold(status.run, style) + " on " + status.profile + ": " + state;
  text += status.ended ? " " + format_age(now - *status.ended) + " ago"
                       : " for " + format_duration(now - status.started);
  return text + ", " + std::to_string(done) + " of " + std::to_string(status.jobs.size()) +
         (status.jobs.size() == 1 ? " job" : " jobs") + " succeeded";
}

std::vector<std::string> problem_lines(const RunStatus& status, const Style& style) {
  if (status.problem.empty()) return {};
  return wrap(status.problem, size_t(style.width));
}

/// What to type next, as lines "Why:    dlflow logs …".
std::string advice(const RunStatus& status) {
  const JobRow* wrong = nullptr;
  for (const JobRow& job : status.jobs) {
    if (went_wrong(job) && job.state != JobState::Blocked && wrong == nullptr) wrong = &job;
  }
  if (status.state == RunState::Running) {
    return "Output: dlflow logs -f " + status.run + "\nStop:   dlflow cancel " + status.run + "\n";
  }
  if (status.state == RunState::Interrupted) {
    return "Go on:  dlflow run --resume " + status.run + "\n";
  }
  if (wrong == nullptr) return "";
  std::string text;
  if (wrong->attempt > 0) {
    text = "Why:    dlflow logs " + status.run + " " + shell_quote(wrong->job) + "\n";
  }
  return text + "Again:  dlflow resubmit " + status.run + "\n";
}

}  // namespace

std::vector<std::string> live_table(const RunView& view, Time now, size_t max_lines,
                                    const Style& style) {
  constexpr size_t kListed = 12;  // elements of one step that are shown one by one
  constexpr size_t kMaxName = 30;
  size_t name_width = 8;
  for (const auto step : by_step(view.status.jobs)) {
    const bool listed = step.size() <= kListed;
    for (const JobRow& job : step) {
      const size_t width = display_width(listed ? job.job : job.step);
      name_width = std::max(name_width, std::min(width, kMaxName));
    }
  }
  std::vector<Row> rows;
  for (const auto step : by_step(view.status.jobs)) {
    if (step.size() > kListed) rows.push_back(step_row(step, name_width, style));
    for (const JobRow& job : step) {
      const bool listed =
          step.size() <= kListed || job.state == JobState::Running || went_wrong(job);
      if (listed) rows.push_back(job_row(job, view, now, name_width, style));
    }
  }
  return fit(std::move(rows), max_lines, style);
}

std::string status_table(const RunView& view, Time now, const Style& style) {
  struct Columns {
    std::string step, job, state, attempt, time, node;
  };
  std::vector<Columns> rows = {{"STEP", "JOB", "STATE", "TRY", "TIME", "NODE"}};
  for (const JobRow& job : view.status.jobs) {
    rows.push_back({job.job, job.backend_id.empty() ? "-" : job.backend_id,
                    std::string(name(job.state)),
                    job.attempt == 0 ? "-" : std::to_string(job.attempt), elapsed(job, now),
                    job.node.empty() ? "-" : job.node});
  }
  size_t widths[6] = {};
  std::string Columns::*const fields[6] = {&Columns::step,    &Columns::job,  &Columns::state,
                                           &Columns::attempt, &Columns::time, &Columns::node};
  for (const Columns& row : rows) {
    for (size_t i = 0; i < 6; ++i) widths[i] = std::max(widths[i], display_width(row.*fields[i]));
  }

  std::string text = headline(view.status, now, style) + "\n";
  for (const std::string& line : problem_lines(view.status, style)) {
    text += line + "\n";
  }
  text += "\n";
  size_t indent = 0;
  for (const size_t width : widths) indent += width + 2;
  const size_t room = style.width > int(indent) + 20 ? size_t(style.width) - indent : 20;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (size_t i = 0; i < 6; ++i) {
      std::string cell = pad(rows[r].*fields[i], widths[i]);
      if (r > 0 && i == 2) cell = paint(view.status.jobs[r - 1].state, cell, style);
      line += cell + "  ";
    }
    std::vector<std::string> detail = {"DETAIL"};
    if (r > 0) {
      detail.clear();
      for (const std::string& part :
           details(view.status.jobs[r - 1], view, Style{.utf8 = style.utf8})) {
        const auto lines = wrap(part, room);
        detail.insert(detail.end(), lines.begin(), lines.end());
      }
    }
    if (!detail.empty()) line += detail.front();
    text += std::string(line, 0, line.find_last_not_of(' ') + 1) + "\n";
    for (size_t i = 1; i < detail.size(); ++i) text += std::string(indent, ' ') + detail[i] + "\n";
  }
  const std::string next = advice(view.status);
  return next.empty() ? text : text + "\n" + next;
}

}  // namespace dlflow
