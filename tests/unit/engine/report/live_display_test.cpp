#include "engine/report/live_display.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "engine/report/again_text.h"
#include "tests/support/catch.h"
#include "tests/support/pseudo_terminal.h"
#include "tests/support/report_values.h"
#include "tests/support/temp_dir.h"
#include "tests/support/variable.h"

using namespace dlflow;
using namespace dlflow::test;
using namespace std::chrono_literals;

namespace {

const Style kAscii{.color = false, .utf8 = false, .width = 80};

JobRow planned(const std::string& step, const std::string& directory = "") {
  JobRow job = row_of(step, JobState::Planned);
  job.directory = directory;
  return job;
}

RunStatus status_of(std::vector<JobRow> jobs) {
  RunStatus status;
  status.run = "demo-7f3a";
  status.started = kStart;
  status.directory = "/runs/demo-7f3a";
  status.jobs = std::move(jobs);
  return status;
}

/// Returns a plan with a step for each job of `status`; each step needs the previous one.
Plan chain_of(const RunStatus& status) {
  Plan plan;
  plan.steps.emplace_back();
  for (const JobRow& job : status.jobs) {
    Step step;
    step.name = job.step;
    if (!plan.workflow.steps.empty()) step.needs = {plan.workflow.steps.back().name};
    step.checkpoint.emplace();
    plan.workflow.steps.push_back(step);
    plan.jobs.emplace_back();
  }
  return plan;
}

JobEvent told(const JobName& job, std::optional<JobState> state, std::chrono::seconds after = 0s) {
  JobEvent made;
  made.job = job;
  made.state = state;
  made.at = kStart + after;
  return made;
}

/// The output of a LineDisplay between `began` and `ended`.
class Lines {
 public:
  explicit Lines(bool verbose)
      : file_(folder_.write("printed", "")),
        printed_(::open(file_.c_str(), O_WRONLY | O_APPEND)),
        display_(printed_.get(), kAscii, verbose) {}

  LineDisplay& display() { return display_; }

  /// Returns the output since the last call.
  std::string text() {
    const std::string all = read_file(file_);
    const std::string since = all.substr(seen_);
    seen_ = all.size();
    return since;
  }

 private:
  test::TempDir folder_;
  std::filesystem::path file_;
  FileDescriptor printed_;
  LineDisplay display_;
  size_t seen_ = 0;
};

}  // namespace

TEST_CASE("events build up the state of a run", "[live_display]") {
  const RunStatus status = status_of({planned("data"), planned("train")});
  RunModel model;
  model.begin(chain_of(status), status);
  CHECK(model.view().needs.at("train") == std::vector<std::string>{"data"});

  JobEvent runs = told("train", JobState::Running, 3s);
  runs.attempt = 2;
  runs.backend_id = "4411";
  runs.node = "n2";
  const JobRow* row = model.apply(runs);
  REQUIRE(row != nullptr);
  CHECK(row == &model.view().status.jobs[1]);
  CHECK(row->state == JobState::Running);
  CHECK(row->attempt == 2);
  CHECK(row->backend_id == "4411");
  CHECK(row->node == "n2");
  CHECK(row->started == kStart + 3s);
  CHECK_FALSE(row->ended.has_value());

  JobEvent fails = told("train", JobState::Failed, 9s);
  fails.exit = 3;
  fails.reason = "exit 3";
  fails.metrics = {{"loss", 0.5}};
  row = model.apply(fails);
  CHECK(row->attempt == 2);  // fields that an event lacks stay
  CHECK(row->backend_id == "4411");
  CHECK(row->node == "n2");
  CHECK(row->exit == 3);
  CHECK(row->reason == "exit 3");
  CHECK(row->metrics.at("loss") == 0.5);
  CHECK(row->ended == kStart + 9s);

  row = model.apply(told("train", JobState::Running, 20s));
  CHECK(row->reason.empty());
  CHECK(row->exit == 3);
  CHECK(row->metrics.at("loss") == 0.5);
  CHECK(row->started == kStart + 20s);
  CHECK_FALSE(row->ended.has_value());
}

TEST_CASE("events without a state of a job in the run change nothing", "[live_display]") {
  const RunStatus status = status_of({planned("data")});
  RunModel model;
  model.begin(chain_of(status), status);
  CHECK(model.apply(told("other", JobState::Running)) == nullptr);
  CHECK(model.apply(told("data", std::nullopt)) == nullptr);
  CHECK(model.view().status.jobs[0].state == JobState::Planned);
}

TEST_CASE("a job that never ran has no end, nor has a running one", "[live_display]") {
  const RunStatus status = status_of({planned("data"), planned("train")});
  RunModel model;
  model.begin(chain_of(status), status);
  CHECK_FALSE(model.apply(told("data", JobState::Cached))->ended.has_value());
  model.apply(told("train", JobState::Running));
  CHECK_FALSE(model.apply(told("train", JobState::Queued, 5s))->ended.has_value());

  model.end(RunState::Failed, kStart + 60s);
  CHECK(model.view().status.state == RunState::Failed);
  CHECK(model.view().status.ended == kStart + 60s);
}

TEST_CASE("without a terminal each change is a line", "[live_display]") {
  const RunStatus status = status_of({planned("data"), planned("train")});
  Lines lines(true);
  lines.display().began(chain_of(status), status);
  CHECK(lines.text() == "demo-7f3a  2 jobs, runs in /runs/demo-7f3a\n");

  lines.display().event(told("data", JobState::Submitting));
  lines.display().event(told("data", std::nullopt));
  CHECK(lines.text().empty());
  lines.display().event(told("data", JobState::Queued));
  CHECK(lines.text() == "  data  . queued\n");
  lines.display().event(told("data", JobState::Running, 1s));
  CHECK(lines.text() == "  data  > running\n");
  JobEvent done = told("data", JobState::Succeeded, 63s);
  done.metrics = {{"loss", 0.25}};
  lines.display().event(done);
  CHECK(lines.text() == "  data  + succeeded  1:02  loss 0.250\n");
  JobEvent blocked = told("train", JobState::Blocked, 64s);
  blocked.reason = "its parent data failed";
  lines.display().event(blocked);
  CHECK(lines.text() == "  train  ! blocked  its parent data failed\n");
  lines.display().stopping();
  CHECK(lines.text() == "Saving checkpoints and stopping; press Ctrl-C again to kill.\n");
  lines.display().ended(RunState::Cancelled, kStart + 70s);
  CHECK(lines.text() ==
        "demo-7f3a cancelled in 1:10\n"
        "  go on    dlflow run --resume demo-7f3a\n");
}

TEST_CASE("a job that begins again is shown without its earlier results", "[live_display]") {
  const RunStatus status = status_of({planned("train")});
  Lines lines(true);
  lines.display().began(chain_of(status), status);
  CHECK(lines.text().starts_with("demo-7f3a  1 job, runs in"));
  lines.display().event(told("train", JobState::Running));
  JobEvent saved = told("train", JobState::Queued, 5s);
  saved.metrics = {{"loss", 0.5}};
  lines.display().event(saved);
  lines.text();
  lines.display().event(told("train", JobState::Running, 6s));
  CHECK(lines.text() == "  train  > running\n");
}

TEST_CASE("a quiet run only reports its end", "[live_display]") {
  const RunStatus status = status_of({planned("train")});
  Lines lines(false);
  lines.display().began(chain_of(status), status);
  lines.display().event(told("train", JobState::Running));
  lines.display().event(told("train", JobState::Succeeded, 2s));
  lines.display().ended(RunState::Succeeded, kStart + 2s);
  CHECK(lines.text() == "demo-7f3a succeeded in 0:02\n");
}

TEST_CASE("a run below the current folder is named as a user would type it", "[live_display]") {
  RunStatus status = status_of({planned("train")});
  status.directory = (std::filesystem::current_path() / "runs/demo-7f3a").string();
  Lines lines(true);
  lines.display().began(chain_of(status), status);
  CHECK(lines.text() == "demo-7f3a  1 job, runs in runs/demo-7f3a\n");
}

TEST_CASE("a run goes on when its output is no longer read", "[live_display]") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const FileDescriptor written(ends[0]);
  REQUIRE(::shutdown(ends[0], SHUT_WR) == 0);
  FileDescriptor(ends[1]).reset();
  const RunStatus status = status_of({planned("train")});
  const auto before = ::signal(SIGPIPE, SIG_IGN);  // as in main
  LineDisplay display(written.get(), kAscii, true);
  CHECK_NOTHROW(display.began(chain_of(status), status));
  ::signal(SIGPIPE, before);
}

TEST_CASE("the next command in the hint depends on the end of the run", "[live_display]") {
  RunStatus status = status_of({planned("data"), planned("lr=0.1"), planned("best")});
  status.state = RunState::Succeeded;
  CHECK(next_steps(status) == "  results  dlflow status demo-7f3a\n");
  status.jobs.front().metrics = {{"accuracy", 0.9}};
  CHECK(next_steps(status) == "  results  dlflow results demo-7f3a\n");
  status.jobs.front().metrics = Json::object();
  status.state = RunState::Running;
  CHECK(next_steps(status).empty());
  status.state = RunState::Interrupted;
  CHECK(next_steps(status) == "  go on    dlflow run --resume demo-7f3a\n");

  status.state = RunState::Failed;
  CHECK(next_steps(status) == "  again    dlflow resubmit demo-7f3a\n");
  status.jobs[0].state = JobState::Succeeded;
  status.jobs[0].attempt = 1;
  status.jobs[1].job = "train[lr=0.1]";
  status.jobs[1].state = JobState::Failed;
  status.jobs[1].attempt = 1;
  status.jobs[2].state = JobState::Failed;
  status.jobs[2].attempt = 1;
  CHECK(next_steps(status) ==
        "  why      dlflow logs demo-7f3a 'train[lr=0.1]'\n"
        "  again    dlflow resubmit demo-7f3a\n");
  status.jobs[1].attempt = 0;  // this job has no output, the next one has
  status.jobs[2].attempt = 0;
  CHECK(next_steps(status) == "  again    dlflow resubmit demo-7f3a\n");
  status.jobs[0].state = JobState::Running;
  CHECK(next_steps(status) == "  again    dlflow resubmit demo-7f3a\n");
}

TEST_CASE(
    "a mistake in the workflow's own text needs a new run, a mistake in a file needs new sources",
    "[live_display]") {
  RunStatus status = status_of({planned("train")});
  status.state = RunState::Failed;
  JobRow& job = status.jobs.front();
  job.state = JobState::Failed;
  job.exit = 1;
  const std::string sources =
      "  again    dlflow resubmit demo-7f3a --with-new-sources\n"
      "           after correcting a script\n";
  const std::string anew =
      "  again    dlflow run w.yaml --profile alpha\n"
      "           uses your corrections; dlflow resubmit would ignore them\n";
  CHECK(next_steps(status) == sources);  // the plan was not read
  status.run_anew = "dlflow run w.yaml --profile alpha";
  job.correction = Correction::Sources;
  CHECK(next_steps(status) ==
        "  again    dlflow resubmit demo-7f3a --with-new-sources\n"
        "           after correcting a script; after changing the workflow or the shell:\n"
        "           dlflow run w.yaml --profile alpha\n");
  job.correction = Correction::Workflow;
  CHECK(next_steps(status) == anew);
  job.correction = Correction::Sources;
  job.reason = "exit 1: error: with: 'lr' must be above 0";
  CHECK(next_steps(status) == anew);
  job.reason = "";
  job.exit = 127;
  CHECK(next_steps(status) == anew);
  job.exit.reset();
  job.reason = "there is no program 'pyhton3' in PATH";
  CHECK(next_steps(status) == anew);
  job.reason = "exit 1: error: there is no such file";
  job.exit = 1;
  job.correction = Correction::Outside;
  CHECK(next_steps(status) == "  again    dlflow resubmit demo-7f3a\n");
  job.correction = Correction::Sources;
  job.exit = 137;  // it was killed; the same sources may succeed
  CHECK(next_steps(status) == "  again    dlflow resubmit demo-7f3a\n");
}

TEST_CASE("the plan shows the parts of a run, and whether a job has sources", "[live_display]") {
  const test::TempDir folder;
  std::ofstream(folder.path() / "w.yaml") << "name: w\n";
  RunStatus status = status_of({planned("a"), planned("b")});
  Plan plan = chain_of(status);
  plan.base = folder.path();
  plan.workflow.file = "elsewhere/w.yaml";
  plan.steps.resize(2);
  plan.steps[1].inputs = {"k.py"};
  plan.jobs[0].name = "a";
  plan.jobs[1].name = "b";
  plan.jobs[1].step = 1;
  add_plan(status, plan);
  CHECK(status.run_anew == "dlflow run " + (folder.path() / "w.yaml").string());
  {
    const test::Variable other_default("DLFLOW_PROFILE", "beta");
    CHECK(run_anew(plan).ends_with("w.yaml --profile local"));
  }
  CHECK(status.jobs[0].correction == Correction::Workflow);
  CHECK(status.jobs[1].correction == Correction::Sources);
  CHECK(status.jobs[1].asked);
  plan.profile.name = "alpha";
  plan.workflow.file = "gone.yaml";
  plan.workflow.steps[0].uses = "stage";
  add_plan(status, plan);
  CHECK(status.run_anew == "dlflow run WORKFLOW --profile alpha");
  plan.options.set = {"lr=0.3", "note=two words"};
  plan.options.until = "a";
  CHECK(run_anew(plan) ==
        "dlflow run WORKFLOW --set lr=0.3 --set 'note=two words' --until a --profile alpha");
  plan.options = {};
  CHECK(status.jobs[0].correction == Correction::Outside);
  plan.profile.name = "not-among-known-ones";
  plan.profile.file = folder.path() / "mine.yaml";  // outside of the folders of profiles
  add_plan(status, plan);
  CHECK(status.run_anew ==
        "dlflow run WORKFLOW --profile " + (folder.path() / "mine.yaml").string());
}

TEST_CASE("on a terminal the table is drawn over itself", "[live_display]") {
  const test::TempDir folder;
  const RunStatus status = status_of(
      {planned("data", folder.path() / "data"), planned("train", folder.path() / "train")});
  const test::PseudoTerminal terminal(24, 80);
  LiveDisplay display(terminal.descriptor(), kAscii);
  display.began(chain_of(status), status);
  CHECK(terminal.drawn().empty());
  JobEvent runs = told("data", JobState::Running);
  runs.attempt = 1;
  display.event(runs);
  folder.write("data/attempt-1/metrics.jsonl", "{\"epoch\":2,\"epochs\":3}\n");
  display.tick(kStart + 5s);
  CHECK(terminal.drawn() ==
        "demo-7f3a  2 jobs, runs in /runs/demo-7f3a\n"
        "\n"
        "  data      > running       0:05  epoch 2/3\n"
        "  train     . waits for data\n"
        "\n"
        "Ctrl-C saves a checkpoint and stops; `dlflow run --resume demo-7f3a` continues.\n");
  display.stopping();
  CHECK_THAT(
      terminal.drawn(),
      Catch::StartsWith("\033[6A\r\033[Jdemo-7f3a  2 jobs") &&
          Catch::EndsWith("\nSaving checkpoints and stopping; press Ctrl-C again to kill.\n"));
  display.tick(kStart + 6s);
  CHECK_THAT(terminal.drawn(), Catch::EndsWith("stopping; press Ctrl-C again to kill.\n"));
  display.event(told("data", JobState::Succeeded, 7s));
  display.event(told("train", JobState::Cancelled, 7s));
  display.ended(RunState::Cancelled, kStart + 7s);
  CHECK(terminal.drawn() ==
        "\033[6A\r\033[J"
        "demo-7f3a  2 jobs, runs in /runs/demo-7f3a\n"
        "\n"
        "  data      + succeeded     0:07  \n"
        "  1 cancelled before it began\n"
        "\n"
        "demo-7f3a cancelled in 0:07, 1 of 2 jobs done\n"
        "  go on    dlflow run --resume demo-7f3a\n");
}

TEST_CASE("the end of a run is wrapped, and a command is never cut", "[live_display]") {
  RunStatus status = status_of({planned("train")});
  status.run = "demo-" + std::string(40, '7');
  const test::PseudoTerminal terminal(24, 60);
  LiveDisplay display(terminal.descriptor(), {.color = false, .utf8 = false, .width = 60});
  display.began(chain_of(status), status);
  display.event(told("train", JobState::Running));
  JobEvent fails = told("train", JobState::Failed, 2s);
  fails.attempt = 1;
  fails.exit = 1;
  fails.reason = "exit 1: error: diverged";
  display.event(fails);
  display.ended(RunState::Failed, kStart + 2s);
  CHECK_THAT(
      terminal.drawn(),
      Catch::Contains(status.run + " failed in\n0:02: train failed, exit 1: error: diverged\n") &&
          Catch::Contains("dlflow resubmit " + status.run + " --with-new-sources\n"));
}

TEST_CASE("jobs that were cancelled before they began have no line", "[live_display]") {
  const RunStatus status = status_of({planned("a"), planned("b"), planned("c")});
  Lines lines(true);
  lines.display().began(chain_of(status), status);
  lines.text();
  for (const char* job : {"a", "b", "c"}) lines.display().event(told(job, JobState::Cancelled));
  CHECK(lines.text().empty());
  lines.display().ended(RunState::Cancelled, kStart);
  CHECK(lines.text() ==
        "demo-7f3a cancelled in 0:00, 0 of 3 jobs done\n"
        "  go on    dlflow run --resume demo-7f3a\n");
}

TEST_CASE("a dumb terminal gets each text once, without moves of the cursor", "[redraw]") {
  const test::Variable dumb("TERM", "dumb");
  const test::PseudoTerminal terminal(24, 40);
  Redraw redraw(terminal.descriptor());
  redraw.show("one\n");
  redraw.show("two\n");
  CHECK(terminal.drawn() == "one\ntwo\n");
}

TEST_CASE("the table is no higher than the terminal", "[live_display]") {
  std::vector<JobRow> jobs;
  for (int i = 0; i < 20; ++i) jobs.push_back(planned("step-" + std::to_string(i)));
  const RunStatus status = status_of(jobs);
  const auto lines_on = [&](unsigned short rows) {
    const test::PseudoTerminal terminal(rows, 80);
    LiveDisplay display(terminal.descriptor(), kAscii);
    display.began(chain_of(status), status);
    display.tick(kStart);
    const std::string drawn = terminal.drawn();
    return std::count(drawn.begin(), drawn.end(), '\n');
  };
  CHECK(lines_on(24) == 21);  // two lines at the top, two at the bottom
  CHECK(lines_on(12) == 9);
  CHECK(lines_on(5) == 6);   // a table of two lines at least
  CHECK(lines_on(0) == 21);  // a terminal of unknown height has 24 lines
}

TEST_CASE("a hint is wrapped to the terminal", "[live_display]") {
  const RunStatus status = status_of({planned("train")});
  const test::PseudoTerminal terminal(24, 60);
  LiveDisplay display(terminal.descriptor(), {.color = true, .utf8 = false, .width = 60});
  display.began(chain_of(status), status);
  display.tick(kStart);
  CHECK_THAT(
      terminal.drawn(),
      Catch::EndsWith("\033[2mCtrl-C saves a checkpoint and stops; `dlflow run --resume\033[0m\n"
                      "\033[2mdemo-7f3a` continues.\033[0m\n"));
}

TEST_CASE("text is drawn again only if it changed, and only as wide as the terminal", "[redraw]") {
  const test::PseudoTerminal terminal(24, 40);
  Redraw redraw(terminal.descriptor());
  CHECK(redraw.rows() == 24);
  redraw.show("one\n" + std::string(50, 'x') + "\n");
  CHECK(terminal.drawn() == "one\n" + std::string(40, 'x') + "\n");
  redraw.show("one\n" + std::string(50, 'x') + "\n");
  CHECK(terminal.drawn().empty());
  redraw.show("two");
  CHECK(terminal.drawn() == "\033[2A\r\033[Jtwo\n");
  redraw.show("");
  CHECK(terminal.drawn() == "\033[1A\r\033[J\n");
}

TEST_CASE("output that is not a terminal gets each text once, unchanged", "[redraw]") {
  const test::TempDir folder;
  const auto file = folder.write("printed", "");
  const FileDescriptor printed(::open(file.c_str(), O_WRONLY | O_APPEND));
  Redraw redraw(printed.get());
  CHECK(redraw.rows() == 24);
  redraw.show("one\n");
  redraw.show("one\n");
  CHECK(read_file(file) == "one\n");
  redraw.show("two\n");
  CHECK(read_file(file) == "one\ntwo\n");
}

TEST_CASE("a run without a saving step is promised no checkpoint", "[live_display]") {
  RunStatus status;
  status.run = "demo-7f3a";
  Plan plan;
  plan.workflow.steps.emplace_back().name = "data";
  RunModel model;
  model.begin(plan, status);
  CHECK_FALSE(model.saves());
  plan.workflow.steps.front().checkpoint.emplace();
  model.begin(plan, status);
  CHECK(model.saves());
}
