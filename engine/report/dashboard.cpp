#include "engine/report/dashboard.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/text.h"
#include "base/units.h"
#include "engine/report/curves.h"
#include "engine/report/job_words.h"

namespace dlflow {
namespace {

using Lines = std::vector<std::string>;

constexpr int kWideTerminal = 120;
constexpr size_t kBetweenColumns = 3;

/// Appends the number of jobs for which `belongs` is true, in the colour of `like`: "3 ✔".
void add_count(std::string& text, const RunStatus& status, JobState like, auto belongs,
               const Style& style) {
  const auto count = std::count_if(status.jobs.begin(), status.jobs.end(), belongs);
  if (count == 0) return;
  text += "  " + paint(like, format_count(uint64_t(count)) + " " + std::string(symbol(like, style)),
                       style);
}

std::string head(const RunStatus& status, Time now, const Style& style) {
  const std::string time = format_duration(status.worked(now));
  std::string text = bold(status.run, style) + " on " + status.profile + "  " +
                     paint(status.state, std::string(name(status.state)), style) + " " + time;
  add_count(
      text, status, JobState::Succeeded,
      [](const JobRow& job) { return satisfies_dependents(job.state); }, style);
  add_count(
      text, status, JobState::Running,
      [](const JobRow& job) { return job.state == JobState::Running; }, style);
  add_count(text, status, JobState::Failed, went_wrong, style);
  add_count(text, status, JobState::Planned, waits, style);
  return text;
}

double share_done(const RunStatus& status) {
  const StepCounts counts(status.jobs);
  if (counts.all == 0) return 0;
  return std::min(1.0, double(counts.done) / double(counts.all));  // what stood for none is skipped
}

std::string print_loss(double value) { return print_number("%.4g", value); }

/// A line per job: its name, the latest loss, and the way to it.
Lines loss_lines(const Losses& losses, const Style& style) {
  size_t names = 0, numbers = 0;
  for (const auto& [job, values] : losses) {
    names = std::max(names, std::min<size_t>(display_width(job), 28));
    numbers = std::max(numbers, print_loss(values.back()).size());
  }
  Lines lines;
  for (const auto& [job, values] : losses) {
    const std::string number = print_loss(values.back());
    const std::string front = "  " + pad(clip(job, names), names) + "  " +
                              std::string(numbers - number.size(), ' ') + number + "  ";
    const size_t room = size_t(std::max(0, style.width - int(display_width(front)) - 1));
    lines.push_back(front + paint(JobState::Running, sparkline(values, room, style), style));
  }
  return lines;
}

/// The jobs that ended last, the latest first.
Lines ended_lines(const RunView& view, Time now, size_t max_lines, const Style& style) {
  std::vector<const JobRow*> ended;
  for (const JobRow& job : view.status.jobs) {
    if (is_final(job.state) && job.ended) ended.push_back(&job);
  }
  std::ranges::stable_sort(ended, std::greater(), &JobRow::ended);
  Lines lines;
  for (const JobRow* job : ended) {
    if (lines.size() == max_lines) break;
    const auto said = details(*job, view, style);
    const std::string age = format_age(now - *job->ended);
    lines.push_back(
        "  " + dim(std::string(age.size() < 6 ? 6 - age.size() : 0, ' ') + age + " ago", style) +
        "  " + paint(job->state, symbol(job->state, style), style) + " " + job->job +
        (said.empty() ? "" : "  " + dim(said.front(), style)));
  }
  return lines;
}

/// Adds a heading and the lines below it, cut to `max_lines`. Adds nothing without lines or room.
void add_part(Lines& to, const std::string& heading, Lines lines, size_t max_lines,
              const Style& style) {
  if (lines.empty() || max_lines < 3) return;
  lines.resize(std::min(lines.size(), max_lines - 2));
  to.push_back("");
  to.push_back(dim(heading, style));
  std::move(lines.begin(), lines.end(), std::back_inserter(to));
}

Lines below_each_other(const RunView& view, const Losses& losses, Time now, size_t rows,
                       const Style& style) {
  const Lines drawn = loss_lines(losses, style);
  const size_t for_losses =
      drawn.empty() ? 0 : std::min(drawn.size() + 2, std::max<size_t>(4, rows / 3));
  const size_t for_ended = std::min<size_t>(7, (rows - for_losses) / 4);
  Lines lines = live_table(view, now, rows - for_losses - for_ended, style);
  add_part(lines, "LOSS", drawn, std::max(for_losses, rows - lines.size() - for_ended), style);
  const size_t left = rows - std::min(rows, lines.size());
  add_part(lines, "ENDED LAST", ended_lines(view, now, left, style), left, style);
  return lines;
}

Lines beside_each_other(const RunView& view, const Losses& losses, Time now, size_t rows,
                        const Style& style) {
  Style left_style = style, right_style = style;
  left_style.width = style.width * 11 / 20;
  right_style.width = style.width - left_style.width - int(kBetweenColumns);
  const Lines left = live_table(view, now, rows, left_style);
  Lines right;
  const size_t for_losses = rows * 3 / 5;
  add_part(right, "LOSS", loss_lines(losses, right_style), for_losses, style);
  const size_t rest = rows - right.size();
  add_part(right, "ENDED LAST", ended_lines(view, now, rest, right_style), rest, style);
  if (!right.empty()) right.erase(right.begin());  // the empty line
  Lines lines;
  for (size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    std::string line = i < left.size() ? clip(left[i], size_t(left_style.width)) : "";
    if (i < right.size()) {
      line = pad(line, size_t(left_style.width) + kBetweenColumns) + right[i];
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

constexpr std::array kBars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array kAscii = {"_", ".", ",", "-", "~", "=", "+", "#"};

std::vector<double> means(std::span<const double> values, size_t columns) {
  std::vector<double> shares;
  for (size_t i = 0; i < columns; ++i) {
    const auto share =
        values.subspan(i * values.size() / columns,
                       (i + 1) * values.size() / columns - i * values.size() / columns);
    shares.push_back(std::accumulate(share.begin(), share.end(), 0.0) / double(share.size()));
  }
  return shares;
}

}  // namespace

Losses read_losses(const RunStatus& status, size_t max_jobs) {
  std::vector<const JobRow*> jobs;
  for (const JobRow& job : status.jobs) {
    if (job.started && job.attempt > 0) jobs.push_back(&job);
  }
  std::stable_sort(jobs.begin(), jobs.end(), [](const JobRow* a, const JobRow* b) {
    const bool runs = a->state == JobState::Running, other = b->state == JobState::Running;
    return runs != other ? runs : a->ended.value_or(*a->started) > b->ended.value_or(*b->started);
  });
  Losses losses;
  size_t looked_at = 0;
  for (const JobRow* job : jobs) {
    if (losses.size() == max_jobs || looked_at++ == 4 * max_jobs) break;
    for (const Curve& curve : read_reported_job(job->directory).curves) {
      if (curve.name != "loss") continue;
      for (const CurvePoint& point : curve.points) losses[job->job].push_back(point.value);
    }
  }
  return losses;
}

Lines dashboard(const RunView& view, const Losses& losses, Time now, size_t rows,
                const Style& style) {
  Lines lines = {head(view.status, now, style),
                 progress_bar(share_done(view.status), style.width - 1, style)};
  if (!view.status.problem.empty()) lines.push_back(escaped(view.status.problem));
  lines.emplace_back("");
  const size_t left = rows - std::min(rows, lines.size());
  const Lines body = style.width >= kWideTerminal
                         ? beside_each_other(view, losses, now, left, style)
                         : below_each_other(view, losses, now, left, style);
  lines.insert(lines.end(), body.begin(), body.end());
  lines.resize(std::min(lines.size(), rows));
  for (std::string& line : lines) line = clip(line, size_t(style.width));
  return lines;
}

std::string sparkline(std::span<const double> values, size_t width, const Style& style) {
  if (values.empty() || width == 0) return "";
  const std::vector<double> shares = means(values, std::min(width, values.size()));
  const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
  const double range = *most - *least;
  std::string line;
  for (const double value : shares) {
    const double height = range > 0 ? (value - *least) / range : 0;
    const auto bar = size_t(std::clamp(std::floor(height * 8), 0.0, 7.0));
    line += style.utf8 ? kBars[bar] : kAscii[bar];
  }
  return line;
}

}  // namespace dlflow
