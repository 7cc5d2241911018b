#include "engine/report/trace.h"

#include "base/file.h"
#include "engine/plan/run_directory.h"
#include "tests/support/catch.h"
#include "tests/support/report_values.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::test;
using namespace std::chrono_literals;

namespace {

/// A run of the steps `train`, with simultaneous jobs, and `test`.
class Traced {
 public:
  Traced() {
    run.status.run = "demo-1";
    run.status.started = kStart;
  }

  /// Adds a job of one attempt that was submitted, began and ended at these seconds after the run's
  /// beginning; with `end` 0 it still runs.
  void job(const JobName& name, const std::string& step, int submitted, int begin, int end) {
    JobRow row;
    row.job = name;
    row.step = step;
    row.attempt = 1;
    row.directory = folder.path() / name.text();
    run.status.jobs.push_back(row);
    auto& events = run.events[name];
    events.push_back(event(JobState::Submitting, submitted));
    events.push_back(event(JobState::Running, begin));
    if (end > 0) events.push_back(event(JobState::Failed, end));
  }

  void timeline(const std::string& job, const std::string& text) const {
    const auto attempt = attempt_directory(folder.path() / job, 1);
    make_directories(attempt);
    write_file_atomic(attempt / "timeline.json", text);
  }

  /// Returns the events of one kind, one a line, with names of processes.
  std::string events(const std::string& kind) const {
    const Json trace = Json::parse(chrome_trace(run, kStart + 100s));
    std::map<int, std::string> names;
    std::string lines;
    for (const Json& one : trace.at("traceEvents")) {
      const int process = one.at("pid");
      if (one.at("ph") == "M" && one.at("name") == "process_name") {
        names[process] = one.at("args").at("name");
      }
      if (one.at("ph") != kind) continue;
      lines += names[process] + "|" + one.at("name").get<std::string>();
      for (const char* key : {"tid", "ts", "dur"}) {
        if (one.contains(key)) lines += "|" + std::to_string(int64_t(one.at(key).get<double>()));
      }
      if (kind != "X") lines += "|" + one.at("args").dump();
      lines += "\n";
    }
    return lines;
  }

  test::TempDir folder;
  ReportedRun run;

 private:
  static JobEvent event(JobState state, int after) {
    JobEvent made;
    made.attempt = 1;
    made.state = state;
    made.at = kStart + std::chrono::seconds(after);
    if (state == JobState::Running) made.node = "n1";
    return made;
  }
};

}  // namespace

TEST_CASE("simultaneous jobs of a step stand side by side, and others in one row", "[trace]") {
  Traced traced;
  traced.job("train[lr=1]", "train", 0, 1, 5);
  traced.job("train[lr=2]", "train", 0, 2, 4);
  traced.job("train[lr=3]", "train", 0, 4, 6);  // takes the row that is free then
  traced.job("test", "test", 0, 7, 0);
  CHECK(traced.events("X") ==
        "step train|train[lr=1]|1|1000000|4000000\n"
        "step train|train[lr=2]|2|2000000|2000000\n"
        "step train|train[lr=3]|2|4000000|2000000\n"
        "step test|test|1|7000000|93000000\n");
}

TEST_CASE("the numbers of waiting and running jobs are shown at each change", "[trace]") {
  Traced traced;
  traced.job("a", "a", 0, 1, 5);
  traced.job("b", "b", 0, 2, 0);
  CHECK(traced.events("C") ==
        "run demo-1|jobs that wait|0|{\"jobs\":2}\n"
        "run demo-1|jobs that wait|1000000|{\"jobs\":1}\n"
        "run demo-1|jobs that wait|2000000|{\"jobs\":0}\n"
        "run demo-1|jobs that run|1000000|{\"jobs\":1}\n"
        "run demo-1|jobs that run|2000000|{\"jobs\":2}\n"
        "run demo-1|jobs that run|5000000|{\"jobs\":1}\n");
}

TEST_CASE("events of ranks stand at their time, each rank below its job", "[trace]") {
  Traced traced;
  traced.job("train", "train", 0, 1, 5);
  traced.timeline("train", R"({"otherData": {"began_at": 1795248002.5}, "traceEvents": [
    {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "rank 0"}},
    {"ph": "M", "name": "thread_name", "pid": 0, "tid": 3, "args": {"name": "reads"}},
    {"ph": "X", "name": "step", "pid": 0, "tid": 3, "ts": 10, "dur": 5},
    {"ph": "X", "name": "step", "pid": 1000000, "ts": 20, "dur": 5},
    {"ph": "X", "name": "no rank", "pid": -1, "ts": 20, "dur": 5},
    {"ph": "X", "name": "too many ranks", "pid": 1000001, "ts": 20, "dur": 5},
    {"ph": "X", "name": "no begin", "pid": 0, "dur": 5},
    {"ph": "X", "name": "no length", "pid": 0, "ts": 20},
    {"ph": "X", "name": "no number", "pid": 0, "ts": "soon", "dur": 5},
    {"ph": "B", "name": "no such kind", "pid": 0, "ts": 20, "dur": 5},
    7
  ]})");
  CHECK(traced.events("X") ==
        "step train|train|1|1000000|4000000\n"
        "train rank 0|step|3|2500010|5\n"
        "|step|0|2500020|5\n");
  CHECK(traced.events("M") ==
        "run demo-1|process_name|{\"name\":\"run demo-1\"}\n"
        "run demo-1|process_sort_index|{\"sort_index\":0}\n"
        "step train|process_name|{\"name\":\"step train\"}\n"
        "step train|process_sort_index|{\"sort_index\":2}\n"
        "train rank 0|process_name|{\"name\":\"train rank 0\"}\n"
        "train rank 0|process_sort_index|{\"sort_index\":3}\n"
        "train rank 0|thread_name|3|{\"name\":\"reads\"}\n");
}

TEST_CASE("a timeline without its time begins with the job's last pass", "[trace]") {
  Traced traced;
  traced.job("train", "train", 0, 3, 5);
  traced.timeline("train", R"({"traceEvents": [{"ph": "X", "name": "step", "pid": 0, "ts": 10,
                                                "dur": 5}]})");
  CHECK(traced.events("X") == "step train|train|1|3000000|2000000\n|step|0|3000010|5\n");
}

TEST_CASE("a file that is not a timeline, and the one of a reused job, are skipped", "[trace]") {
  Traced traced;
  traced.job("train", "train", 0, 3, 5);
  const std::string own = "step train|train|1|3000000|2000000\n";
  for (const char* text : {"", "7", "{}", R"({"traceEvents": 7})"}) {
    traced.timeline("train", text);
    CHECK(traced.events("X") == own);
  }
  traced.timeline("train", R"({"traceEvents": [{"ph": "X", "name": "step", "pid": 0, "ts": 10,
                                                "dur": 5}]})");
  traced.run.status.jobs[0].attempt = 0;
  CHECK(traced.events("X") == own);
}
