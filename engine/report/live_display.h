#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "engine/report/headline.h"
#include "engine/report/observer.h"
#include "engine/report/run_table.h"
#include "engine/report/style.h"

namespace dlflow {

/// Text that replaces itself: on a terminal it is drawn over what was shown before, elsewhere it is
/// printed again when it changed. What was shown last stays on the screen.
class Redraw {
 public:
  explicit Redraw(int descriptor);

  void show(const std::string& text);

  /// Rows and columns to draw in.
  size_t rows() const;

 private:
  void write(const std::string& bytes) const;
  std::string erase() const;

  int descriptor_;
  bool terminal_;
  std::string shown_;
  size_t lines_ = 0;
};

/// The state of a run as its events build it up.
class RunModel {
 public:
  void begin(const Plan& plan, const RunStatus& status);
  /// The job that changed, or null for one that is not in the run.
  const JobRow* apply(const JobEvent& event);
  void end(RunState state, Time at);

  RunView& view() { return view_; }
  const NumbersByStep& numbers() const { return numbers_; }

  /// Whether a step of the run can save a checkpoint when it is asked to stop.
  bool saves() const { return saves_; }

 private:
  RunView view_;
  NumbersByStep numbers_;
  bool saves_ = false;
  std::unordered_map<std::string, size_t> rows_;  // job -> its place in view_.status.jobs
};

/// A table on a terminal that is drawn over itself, with the progress of what runs.
class LiveDisplay : public Observer {
 public:
  LiveDisplay(int descriptor, const Style& style);

  void began(const Plan& plan, const RunStatus& status) override;
  void extended(const Plan& plan, const RunStatus& status) override { began(plan, status); }
  void event(const JobEvent& event) override;
  void tick(Time now) override;
  void stopping() override;
  void ended(RunState state, Time at) override;

 private:
  void draw(Time now, bool final);

  Style style_;
  Redraw redraw_;
  RunModel run_;
  std::string headline_;
  bool stopping_ = false;
};

/// Elsewhere: one line per change.
class LineDisplay : public Observer {
 public:
  /// \param verbose  false: only how it ended.
  LineDisplay(int descriptor, const Style& style, bool verbose);

  void began(const Plan& plan, const RunStatus& status) override;
  void extended(const Plan& plan, const RunStatus& status) override;
  void event(const JobEvent& event) override;
  void tick(Time) override {}
  void stopping() override;
  void ended(RunState state, Time at) override;

 private:
  void print(const std::string& line) const;

  int descriptor_;
  Style style_;
  bool verbose_;
  RunModel run_;
};

/// The lines below the end of a run: where the result is, and what to type next.
std::string next_steps(const RunStatus& status);

}  // namespace dlflow
