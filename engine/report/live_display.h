#pragma once

#include <string>
#include <unordered_map>

#include "engine/report/headline.h"
#include "engine/report/observer.h"
#include "engine/report/run_table.h"
#include "engine/report/style.h"

namespace dlflow {

/// Text that replaces itself. On a terminal it is drawn over the previous text; elsewhere it is
/// printed again when it changed. The last text stays on the screen.
class Redraw {
 public:
  explicit Redraw(int descriptor);

  void show(const std::string& text);

  /// Writes `bytes` below, as they are: a terminal breaks a long line, and does not cut it.
  void write(const std::string& bytes) const;

  /// The rows of the terminal.
  size_t rows() const;

 private:
  std::string erase() const;

  int descriptor_;
  bool terminal_;
  std::string shown_;
  size_t lines_ = 0;
};

/// The state of a run, built from its events.
class RunModel {
 public:
  void begin(const Plan& plan, const RunStatus& status);
  /// Returns the job that changed, or null if it is not in the run.
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

/// A table with the progress of running jobs, redrawn in place on a terminal.
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

/// One line per change, for output that is not a terminal.
class LineDisplay : public Observer {
 public:
  /// \param verbose  false: prints only how the run ended.
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

/// The lines below the end of a run: the place of the result, and the next commands.
std::string next_steps(const RunStatus& status);

}  // namespace dlflow
