#include "engine/report/live_display.h"

#include <sys/ioctl.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/model/step_kinds.h"
#include "engine/plan/extension.h"
#include "engine/report/again_text.h"
#include "engine/report/describe.h"
#include "engine/report/job_words.h"
#include "engine/report/style.h"

namespace dlflow {
namespace {

bool starts_or_ends(const JobEvent& event) {
  return event.state && (*event.state == JobState::Running || is_final(*event.state) ||
                         *event.state == JobState::Queued);
}

void write_if_read(int descriptor, const std::string& text) {
  try {
    write_all(descriptor, text, "standard output");
  } catch (const Error&) {  // the reader has gone; the run continues
  }
}

std::string stopping_text(bool saves) {
  return saves ? "Saving checkpoints and stopping; press Ctrl-C again to kill."
               : "Stopping; press Ctrl-C again to kill.";
}

std::string hint(const std::string& run, bool saves) {
  const std::string again = "`dlflow run --resume " + run + "`";
  return saves ? "Ctrl-C saves a checkpoint and stops; " + again + " continues."
               : "Ctrl-C stops; " + again + " restarts unfinished jobs.";
}

bool has_numbers(const RunStatus& status) {
  return std::any_of(status.jobs.begin(), status.jobs.end(), [](const JobRow& job) {
    return job.metrics.is_object() && !job.metrics.empty();
  });
}

}  // namespace

void RunModel::begin(const Plan& plan, const RunStatus& status) {
  view_.status = status;
  rows_.clear();
  for (size_t i = 0; i < status.jobs.size(); ++i) rows_[status.jobs[i].job] = i;
  add_plan(view_.status, plan);
  for (const Step& step : plan.workflow.steps) view_.needs[step.name] = step.needs;
  numbers_ = numbers_of(plan.workflow);
  saves_ = std::ranges::any_of(
      plan.workflow.steps, [](const Step& step) { return can_save(step.uses, step.checkpoint); });
}

const JobRow* RunModel::apply(const JobEvent& event) {
  const auto found = rows_.find(event.job);
  if (found == rows_.end() || !event.state) return nullptr;
  JobRow& row = view_.status.jobs[found->second];
  row.state = *event.state;
  row.reason = event.reason;
  if (event.attempt > 0) row.attempt = event.attempt;
  if (!event.backend_id.empty()) row.backend_id = event.backend_id;
  if (!event.node.empty()) row.node = event.node;
  if (event.exit) row.exit = event.exit;
  if (event.metrics.is_object()) row.metrics = event.metrics;
  if (event.state == JobState::Running) {
    row.started = event.at;
    row.ended.reset();
  } else if (is_final(*event.state) && row.started) {
    row.ended = event.at;
  }
  return &row;
}

void RunModel::end(RunState state, Time at) {
  view_.status.state = state;
  view_.status.ended = at;
}

LiveDisplay::LiveDisplay(int descriptor, const Style& style) : style_(style), redraw_(descriptor) {}

void LiveDisplay::began(const Plan& plan, const RunStatus& status) {
  run_.begin(plan, status);
  headline_ = bold(status.run, style_) + "  " + count_of_jobs(plan) + ", runs in " +
              from_here(status.directory);
}

void LiveDisplay::event(const JobEvent& event) { run_.apply(event); }

void LiveDisplay::tick(Time now) {
  run_.view().progress = read_progress(run_.view().status);
  draw(now, false);
}

void LiveDisplay::stopping() {
  stopping_ = true;
  draw(SystemClock().now(), false);
}

void LiveDisplay::ended(RunState state, Time at) {
  run_.end(state, at);
  draw(at, true);
}

void LiveDisplay::draw(Time now, bool final) {
  constexpr size_t kAround = 7;  // head, foot and the empty lines between
  const RunStatus& status = run_.view().status;
  const size_t rows = std::max<size_t>(redraw_.rows(), kAround + 2) - kAround;
  std::string text = headline_ + "\n\n";
  for (const std::string& line : live_table(run_.view(), now, rows, style_)) text += line + "\n";
  text += "\n";
  const std::string foot = final       ? describe_end(status, run_.numbers())
                           : stopping_ ? stopping_text(run_.saves())
                                       : hint(status.run, run_.saves());
  std::string end;
  for (const std::string& line : wrap(foot, size_t(style_.width))) {
    end += (final ? paint(status.state, line, style_) : dim(line, style_)) + "\n";
  }
  redraw_.show(final ? text : text + end);
  if (final) redraw_.write(end + next_steps(status));
}

LineDisplay::LineDisplay(int descriptor, const Style& style, bool verbose)
    : descriptor_(descriptor), style_(style), verbose_(verbose) {}

void LineDisplay::print(const std::string& line) const { write_if_read(descriptor_, line + "\n"); }

void LineDisplay::began(const Plan& plan, const RunStatus& status) {
  run_.begin(plan, status);
  if (verbose_) {
    print(status.run + "  " + count_of_jobs(plan) + ", runs in " + from_here(status.directory));
  }
}

void LineDisplay::extended(const Plan& plan, const RunStatus& status) {
  run_.begin(plan, status);
  if (verbose_) print("  " + count_of_jobs(plan) + " now, as listed");
}

void LineDisplay::event(const JobEvent& event) {
  const JobRow* row = run_.apply(event);
  if (row == nullptr || !verbose_ || !starts_or_ends(event) || never_began(*row)) return;
  std::string line = "  " + row->job + "  " + badge(row->state, style_);
  if (row->ended && *event.state != JobState::Running) {
    line += "  " + format_duration(*row->ended - *row->started);
  }
  const std::string detail = row->reason.empty() ? describe_metrics(row->metrics) : row->reason;
  if (!detail.empty() && *event.state != JobState::Running) line += "  " + detail;
  print(line);
}

void LineDisplay::stopping() { print(stopping_text(run_.saves())); }

void LineDisplay::ended(RunState state, Time at) {
  run_.end(state, at);
  const RunStatus& status = run_.view().status;
  print(paint(state, describe_end(status, run_.numbers()), style_));
  const std::string next = next_steps(status);
  if (verbose_ && !next.empty()) print(next.substr(0, next.size() - 1));
}

std::string next_steps(const RunStatus& status) {
  if (status.state == RunState::Running) return "";
  if (status.state == RunState::Succeeded) {
    return std::string("  results  dlflow ") + (has_numbers(status) ? "results " : "status ") +
           status.run + "\n";
  }
  if (status.state != RunState::Failed) {
    return "  go on    dlflow run --resume " + status.run + "\n";
  }
  std::string text;
  const auto failed = std::ranges::find_if(status.jobs, [](const JobRow& job) {
    return job.attempt > 0 && is_final(job.state) && !satisfies_dependents(job.state);
  });
  if (failed != status.jobs.end()) {
    text = "  why      dlflow logs " + status.run + " " + shell_quote(failed->job) + "\n";
  }
  const AgainText again = again_text(status);
  text += "  again    " + again.command + "\n";
  for (const std::string& line : again.notes) text += "           " + line + "\n";
  return text;
}

Redraw::Redraw(int descriptor) : descriptor_(descriptor), terminal_(can_redraw(descriptor)) {}

void Redraw::show(const std::string& text) {
  if (text == shown_) return;
  shown_ = text;
  if (!terminal_) return write(text);
  const auto width = size_t(detect_style(descriptor_).width);
  std::string frame = erase();
  lines_ = 0;
  for (const std::string& line : split(trim(text) == "" ? "" : text, '\n')) {
    frame += clip(line, width) + "\n";
    ++lines_;
  }
  if (text.ends_with('\n')) {  // split() returned an empty last line
    frame.pop_back();
    --lines_;
  }
  write(frame);
}

size_t Redraw::rows() const {
  winsize size{};
  const bool known = ::ioctl(descriptor_, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
  return known ? size.ws_row : 24;
}

std::string Redraw::erase() const {
  if (!terminal_ || lines_ == 0) return "";
  return "\033[" + std::to_string(lines_) + "A\r\033[J";
}

void Redraw::write(const std::string& bytes) const { write_if_read(descriptor_, bytes); }

}  // namespace dlflow
