#include "engine/report/status_table.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "engine/plan/job.h"
#include "engine/report/again_text.h"
#include "engine/report/describe.h"
#include "engine/report/job_words.h"
#include "engine/report/usage.h"

namespace dlflow {
namespace {

constexpr size_t kColumnGap = 2;
constexpr size_t kLeastRoom = 20;    // for details beside the other columns; with less room they
                                     // stand below
constexpr size_t kListedFailed = 5;  // in a step whose elements are not listed

/// A row of the table, which may take several lines.
struct Line {
  JobState state = JobState::Planned;
  std::vector<std::string> cells;         // the first is the step
  std::vector<std::string> details = {};  // not yet wrapped
  const JobRow* job = nullptr;            // the source of more details
};

struct Table {
  Line head;
  size_t state_column = 0;
  std::vector<Line> lines;
  std::string advice = {};  // how to see more
};

std::string percent(const std::optional<double>& fraction) {
  return fraction ? std::to_string(int64_t(std::llround(*fraction * 100))) + "%" : "-";
}

std::string size_or_dash(uint64_t bytes) { return bytes == 0 ? "-" : format_size(bytes); }

/// The spans in which a job ran: one per attempt, and one more after each requeue.
std::vector<JobSpan> passes_of(const JobRow& job, const RunView& view) {
  const auto found = view.spans.find(job.job);
  std::vector<JobSpan> passes = found == view.spans.end() ? std::vector<JobSpan>() : found->second;
  std::erase_if(passes, [](const JobSpan& span) { return !span.running; });
  return passes;
}

/// "try 1: node failure"; empty for a first try, or if the earlier one ended with the same cause.
std::string earlier_cause(const JobRow& job, const RunView& view) {
  const std::vector<JobSpan> passes = passes_of(job, view);
  const size_t before = passes.size() - (waits(job) ? 0 : 1);
  if (passes.size() < 2 || passes[before - 1].reason == job.reason) return "";
  const std::string& reason = passes[before - 1].reason;
  return "try " + std::to_string(before) + ": " + (reason.empty() ? "requeued" : reason);
}

Line job_line(const JobRow& job, const RunView& view, Time now) {
  const int tries = std::max(job.attempt, int(passes_of(job, view).size()));
  return {.state = job.state,
          .cells = {job.job, or_dash(job.backend_id), std::string(name(job.state)),
                    tries == 0 ? "-" : std::to_string(tries), elapsed(job, now), or_dash(job.node)},
          .job = &job};
}

Line usage_line(const JobRow& job, Time now) {
  const JobUsage usage = job.usage.value_or(JobUsage());
  const std::string time = usage.elapsed ? format_duration(*usage.elapsed) : elapsed(job, now);
  return {job.state,
          {job.job, std::string(name(job.state)), time,
           usage.cpu_time ? format_duration(*usage.cpu_time) : "-", percent(cpu_efficiency(job)),
           size_or_dash(usage.memory_bytes), size_or_dash(job.asked ? job.asked->memory_bytes : 0),
           percent(memory_efficiency(job))},
          {}};
}

/// "812" if all ids are "812_0", "812_1", …; "812+" if there are several arrays; otherwise empty.
std::string array_of(std::span<const JobRow> jobs) {
  const auto array = [](const JobRow& job) {
    const size_t end = job.backend_id.find('_');
    return end == std::string::npos ? "" : job.backend_id.substr(0, end);
  };
  const std::string first = array(jobs.front());
  const bool more =
      std::any_of(jobs.begin(), jobs.end(), [&](const JobRow& job) { return array(job) != first; });
  return more && !first.empty() ? first + "+" : first;
}

Line step_line(std::span<const JobRow> jobs) {
  const StepCounts counts(jobs);
  return {.state = counts.look(),
          .cells = {jobs.front().step + " x" + format_count(jobs.size()), or_dash(array_of(jobs)),
                    std::string(name(counts.look())), "-", "-", "-"},
          .details = {counts.text()}};
}

Table jobs_table(const RunView& view, Time now, const StatusChoice& choice) {
  Table table{
      {.cells = {"STEP", "JOB", "STATE", "TRY", "TIME", "NODE"}, .details = {"DETAIL"}}, 2, {}};
  const auto failed = [](const JobRow& job) {
    return went_wrong(job) && job.state != JobState::Blocked && !never_began(job);
  };
  for (const auto step : by_step(view.status.jobs)) {
    const bool counted = choice.names.empty() && step.size() > kListedElements;
    if (counted) table.lines.push_back(step_line(step));
    size_t listed = 0;
    for (const JobRow& job : step) {
      if (!is_chosen(job, choice)) continue;
      if (!counted || (failed(job) && listed++ < kListedFailed)) {
        table.lines.push_back(job_line(job, view, now));
      }
    }
    if (listed > kListedFailed) {
      table.lines.push_back(
          {JobState::Failed,
           {"and " + format_count(listed - kListedFailed) + " more", "-", "-", "-", "-", "-"}});
    }
    if (counted) {
      table.advice +=
          "Each:   dlflow status " + view.status.run + " --step " + step.front().step + "\n";
    }
  }
  return table;
}

Table usage_table(const RunView& view, Time now, const StatusChoice& choice) {
  constexpr size_t kAsked = 6;  // the columns from here on are about the requested memory
  Table table{{.cells = {"STEP", "STATE", "TIME", "CPU TIME", "CPU", "MEMORY", "ASKED", "MEM"},
               .details = {}},
              1,
              {}};
  bool has_asked = false;
  for (const JobRow& job : view.status.jobs) {
    if (!is_chosen(job, choice)) continue;
    table.lines.push_back(usage_line(job, now));
    has_asked |= table.lines.back().cells[kAsked] != "-";
  }
  if (!has_asked) {
    table.head.cells.resize(kAsked);
    for (Line& line : table.lines) line.cells.resize(kAsked);
  }
  return table;
}

/// The widths of the columns. If the table is too wide, the first column shrinks.
std::vector<size_t> widths_of(const Table& table, size_t total) {
  constexpr size_t kLeast = 8;
  std::vector<size_t> widths;
  size_t others = 0;
  for (size_t i = 0; i < table.head.cells.size(); ++i) {
    widths.push_back(display_width(table.head.cells[i]));
    for (const Line& line : table.lines) {
      widths[i] = std::max(widths[i], display_width(line.cells[i]));
    }
    if (i > 0) others += widths[i] + kColumnGap;
  }
  widths[0] = std::min(widths[0], std::max(kLeast, total - std::min(total, others)));
  return widths;
}

class Printer {
 public:
  Printer(const Table& table, const Style& style)
      : widths_(widths_of(table, size_t(style.width))),
        state_column_(table.state_column),
        style_(style) {
    for (const size_t width : widths_) indent_ += width + kColumnGap;
    beside_ = size_t(style.width) >= indent_ + kLeastRoom;
  }

  /// The number of columns for details.
  int room() const { return style_.width - int(beside_ ? indent_ : kBelow); }

  std::string head(const Line& line) const {
    std::string row;
    for (size_t i = 0; i < widths_.size(); ++i) row += pad(line.cells[i], widths_[i] + kColumnGap);
    if (beside_ && !line.details.empty()) row += line.details.front();
    return trimmed_line(row);
  }

  std::string line(const Line& line) const {
    const size_t indent = beside_ ? indent_ : kBelow;
    std::vector<std::string> parts;
    for (const std::string& detail : line.details) {
      for (std::string& part : wrap(detail, size_t(room()))) {
        parts.push_back(std::move(part));
      }
    }
    std::string text = cells(line);
    if (beside_ && !parts.empty()) text += parts.front();
    text = trimmed_line(text);
    for (size_t i = beside_ ? 1 : 0; i < parts.size(); ++i) {
      text += std::string(indent, ' ') + parts[i] + "\n";
    }
    return text;
  }

 private:
  /// A step name that is too long for its column gets its own line.
  std::string cells(const Line& line) const {
    const bool fits = display_width(line.cells[0]) <= widths_[0];
    std::string row;
    if (fits) row = pad(line.cells[0], widths_[0] + kColumnGap);
    if (!fits) {
      row = join(wrap_name(line.cells[0], size_t(style_.width)), "\n") + "\n" +
            std::string(widths_[0] + kColumnGap, ' ');
    }
    for (size_t i = 1; i < widths_.size(); ++i) {
      const std::string cell = pad(line.cells[i], widths_[i]);
      row += (i == state_column_ ? paint(line.state, cell, style_) : cell) +
             std::string(kColumnGap, ' ');
    }
    return row;
  }

  static constexpr size_t kBelow = 4;  // the indent of details below their row

  std::vector<size_t> widths_;
  size_t state_column_;
  const Style& style_;
  size_t indent_ = 0;    // of details beside the columns
  bool beside_ = false;  // whether details fit beside the columns
};

std::string headline(const RunStatus& status, Time now, const Style& style) {
  size_t done = 0;
  size_t all = 0;
  std::vector<std::string> unlisted;
  for (const JobRow& job : status.jobs) {
    done += satisfies_dependents(job.state);
    all += job.is_open ? 0 : 1;
    const bool waits = job.is_open && job.state == JobState::Planned;
    if (waits && (unlisted.empty() || unlisted.back() != job.step)) unlisted.push_back(job.step);
  }
  const std::string state = paint(status.state, name(status.state), style);
  std::string text = bold(status.run, style) + " on " + status.profile + ": " + state;
  if (status.ended) {
    text += " " + format_age(now - *status.ended) + " ago";
  } else if (status.state == RunState::Running) {  // in other states the time of the end is unknown
    text += " for " + format_duration(status.worked(now));
  }
  text += ", " + std::to_string(done) + " of " + std::to_string(all) +
          (all == 1 ? " job" : " jobs") + " succeeded";
  if (unlisted.empty()) return text;
  return text + "; those of " + join(unlisted, ", ") + " are not listed yet";
}

/// The reasons why the state may be incomplete.
std::string problems(const RunStatus& status, const Style& style) {
  std::string text;
  if (!status.problem.empty()) {
    const std::string problem = escaped_lines(status.problem);
    for (const std::string& line : wrap(problem, size_t(style.width))) text += line + "\n";
  }
  if (status.unaccounted.empty()) return text;
  const std::string note = "No accounting (" + status.unaccounted +
                           "): figures are what each job's supervisor measured on its node.";
  for (const std::string& line : wrap(note, size_t(style.width))) text += line + "\n";
  return text;
}

/// The next commands, as lines "Why:    dlflow logs …".
std::string advice(const RunStatus& status) {
  if (status.damaged) return "";  // its problem names the remedy
  if (status.state == RunState::Running) {
    return "Output: dlflow logs -f " + status.run + "\nStop:   dlflow cancel " + status.run + "\n";
  }
  if (status.state == RunState::Interrupted) {
    return "Go on:  dlflow run --resume " + status.run + "\n";
  }
  const auto wrong = std::ranges::find_if(status.jobs, [](const JobRow& job) {
    return went_wrong(job) && job.state != JobState::Blocked && !job.may_fail;
  });
  if (wrong == status.jobs.end()) return "";
  std::string text;
  if (wrong->attempt > 0) {
    text = "Why:    dlflow logs " + status.run + " " + shell_quote(wrong->job) + "\n";
  }
  const AgainText again = again_text(status);
  text += "Again:  " + again.command + "\n";
  for (const std::string& line : again.notes) text += "        " + line + "\n";
  return text;
}

}  // namespace

bool is_chosen(const JobRow& job, const StatusChoice& choice) {
  return choice.names.empty() ||
         std::any_of(choice.names.begin(), choice.names.end(),
                     [&job](const std::string& name) { return job.job.is_meant_by(name); });
}

std::string status_table(const RunView& view, Time now, const Style& style,
                         const StatusChoice& choice) {
  Table table = choice.usage ? usage_table(view, now, choice) : jobs_table(view, now, choice);
  const Printer printer(table, style);
  std::string text = headline(view.status, now, style) + "\n" + problems(view.status, style) + "\n";
  text += printer.head(table.head);
  const Style narrow{.utf8 = style.utf8, .width = printer.room()};
  const JobRow* above = nullptr;
  for (Line& line : table.lines) {
    if (line.job != nullptr) {
      line.details = details(*line.job, view, narrow, std::exchange(above, line.job));
      const std::string earlier = earlier_cause(*line.job, view);
      if (!earlier.empty()) line.details.push_back(earlier);
    }
    text += printer.line(line);
  }
  const std::string next = table.advice + advice(view.status);
  return next.empty() ? text : text + "\n" + next;
}

}  // namespace dlflow
