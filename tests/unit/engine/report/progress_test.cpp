#include <sys/stat.h>

#include "engine/report/curves.h"
#include "engine/report/describe.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;

TEST_CASE("progress is the last whole line", "[progress]") {
  const test::TempDir folder;
  const auto file = folder.write("metrics.jsonl", "{\"epoch\":1}\n{\"epoch\":2}\n{\"epo");
  CHECK(last_metrics(file)->at("epoch") == 2);
  CHECK_FALSE(last_metrics(folder.path() / "none").has_value());
  CHECK_FALSE(last_metrics(folder.write("empty", "")).has_value());
  CHECK_FALSE(last_metrics(folder.write("torn", "{\"epoch\":1")).has_value());
  CHECK_FALSE(last_metrics(folder.write("other", "hello\n")).has_value());
  REQUIRE(::mkfifo((folder.path() / "pipe").c_str(), 0600) == 0);
  CHECK_FALSE(last_metrics(folder.path() / "pipe").has_value());  // and it does not wait
}

TEST_CASE("a long metrics file is read from its end", "[progress]") {
  const test::TempDir folder;
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "{\"step\":" + std::to_string(i) + "}\n";
  CHECK(last_metrics(folder.write("metrics.jsonl", text))->at("step") == 4999);
}

TEST_CASE("training progress is shown in two lines", "[describe]") {
  const Json progress = {{"epoch", 2}, {"epochs", 3},          {"progress", 0.64}, {"loss", 0.312},
                         {"ranks", 2}, {"images_per_s", 3980}, {"eta_s", 17.2}};
  const auto lines = describe_progress(progress, {.utf8 = false});
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "epoch 2/3 ==========>----- 64%  loss 0.312");
  CHECK(lines[1] == "3,980 img/s on 2 ranks, 0:17 left");

  Json later = progress;
  later["noise_scale"] = 1250.0;
  CHECK(describe_progress(later, {.utf8 = false})[1] ==
        "3,980 img/s on 2 ranks, 0:17 left, noise scale 1,250");
}

TEST_CASE("progress with values of the wrong type is shown as far as possible", "[describe]") {
  CHECK(describe_progress({{"epoch", "two"}, {"loss", nullptr}}, {}).empty());
  CHECK(describe_metrics(Json::array()).empty());
  CHECK(describe_metrics({{"bytes", 30931288}, {"files", 4}}) == "29.5 MiB staged, 4 files");
  CHECK(describe_metrics({{"wer", 0.125}}) == "wer 0.125");
}

TEST_CASE("a program's message or metric name cannot control a terminal", "[describe][attack]") {
  const auto lines =
      describe_progress({{"message", "\033]0;title\a\u009b31m\u202egnp.exe"}}, {.utf8 = false});
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] == "\\u001b]0;title\\u0007\\u009b31m\\u202egnp.exe");
  CHECK(describe_metrics({{"\033[2J", 1}}) == "\\u001b[2J 1");
}

TEST_CASE("a program's absurd numbers are shown as far as possible", "[describe][attack]") {
  const double odd = GENERATE(1e300, -1e300);
  const Json progress = {{"progress", odd},     {"bytes", odd},       {"total_bytes", odd},
                         {"images_per_s", odd}, {"noise_scale", odd}, {"eta_s", odd}};
  for (const std::string& line : describe_progress(progress, {.utf8 = false})) {
    CHECK(line.size() < 200);
  }
}

TEST_CASE("metrics nested too deep are not progress", "[progress][attack]") {
  const test::TempDir folder;
  const std::string deep(4000, '[');  // the number of bytes read of a file
  CHECK_FALSE(last_metrics(folder.write("m", R"({"a":)" + deep + "\n")).has_value());
}

TEST_CASE("the share of finished bytes is shown as progress", "[describe]") {
  const Style ascii{.utf8 = false};
  CHECK(describe_progress({{"bytes", 1024}, {"total_bytes", 4096}}, ascii) ==
        std::vector<std::string>{"====>----------- 25%  1.0 KiB of 4.0 KiB"});
  CHECK(describe_progress({{"bytes", 1024}}, ascii) == std::vector<std::string>{"1.0 KiB"});
  CHECK(describe_progress({{"total_bytes", 1024}}, ascii).empty());
  CHECK(describe_progress({{"bytes", 0}, {"total_bytes", 0}}, ascii) ==
        std::vector<std::string>{"0 B of 0 B"});
  CHECK(describe_progress({{"bytes", 1}, {"total_bytes", 1}}, ascii) ==
        std::vector<std::string>{"================ 100%  1 B of 1 B"});
}

TEST_CASE("a bar is left out if it has no room", "[describe]") {
  const Json progress = {{"epoch", 2}, {"epochs", 3}, {"progress", 0.5}, {"loss", 0.25}};
  const auto first = [&](int width) {
    return describe_progress(progress, {.utf8 = false, .width = width}).at(0);
  };
  // "epoch 2/3" and "50%  loss 0.250" are 24 columns, with two spaces for a bar.
  CHECK(first(33) == "epoch 2/3 ====>-- 50%  loss 0.250");
  CHECK(first(32) == "epoch 2/3 ===>-- 50%  loss 0.250");
  CHECK(first(31) == "epoch 2/3 50%  loss 0.250");
}

TEST_CASE("without a fraction the loss stands two columns beside the epoch", "[describe]") {
  CHECK(describe_progress({{"epoch", 2.5}, {"loss", 0.25}}, {}) ==
        std::vector<std::string>{"epoch 2.5  loss 0.250"});
  CHECK(describe_progress({{"epoch", 2e15}}, {}) == std::vector<std::string>{"epoch 2e+15"});
  CHECK(describe_progress({{"loss", "NaN"}}, {}) == std::vector<std::string>{"loss NaN"});
  CHECK(describe_progress({{"message", 7}, {"ranks", 1}, {"images_per_s", 1}}, {}) ==
        std::vector<std::string>{"1 img/s on 1 rank"});
  CHECK(describe_progress({{"images_per_s", 0.5}}, {}) == std::vector<std::string>{"0 img/s"});
}

TEST_CASE("the most wanted numbers come first", "[describe]") {
  CHECK(describe_metrics({{"loss", 0.25}, {"accuracy", 0.5}, {"images_per_s", 16865.2}}) ==
        "accuracy 0.500, loss 0.250, 16,865 img/s");
  CHECK(describe_metrics({{"loss", 0.25}, {"tokens_per_s", 51200}}) ==
        "loss 0.250, 51,200 tokens/s");
  CHECK(describe_progress({{"samples_per_s", 9000}}, {}) ==
        std::vector<std::string>{"9,000 samples/s"});
  CHECK(describe_metrics({{"loss", 0.25}, {"iou", 0.5}, {"pixel_accuracy", 0.75}}) ==
        "iou 0.500, loss 0.250");
  CHECK(describe_metrics({{"bytes", 1}, {"files", 1}}) == "1 B staged, 1 file");
  CHECK(describe_metrics({{"accuracy", "NaN"}}) == "accuracy NaN");
  CHECK(describe_metrics({{"name", "text"}, {"wer", "Infinity"}}) == "wer Infinity");
  CHECK(describe_metrics({{"name", "text"}}).empty());
  CHECK(describe_metrics("text").empty());
}

TEST_CASE("a running job has its limit beside its time", "[describe]") {
  using namespace std::chrono_literals;
  const Time start{};
  JobRow job;
  CHECK(elapsed(job, start + 130s) == "-");
  job.started = start;
  CHECK(elapsed(job, start + 130s) == "2:10");
  job.limit = 20min;
  CHECK(elapsed(job, start + 130s) == "2:10/20:00");
  job.limit_since = start + 126s;  // it was requeued since it started
  CHECK(elapsed(job, start + 130s) == "0:04/20:00");
  CHECK(elapsed(job, start + 125s) == "0:00/20:00");  // the cluster's clock is ahead
}

TEST_CASE("the time of an ended job does not grow", "[describe]") {
  using namespace std::chrono_literals;
  const Time start{};
  JobRow job;
  job.state = JobState::Failed;
  job.started = start;
  CHECK(elapsed(job, start + 24h) == "-");  // the time is unknown
  job.ended = start + 60s;
  job.limit = 20min;
  CHECK(elapsed(job, start + 130s) == "1:00");
  CHECK(elapsed(job, start + 24h) == "1:00");
}

TEST_CASE("the first job that ended badly is the reason of the run's end", "[describe]") {
  RunStatus status;
  status.run = "demo-7f3a";
  status.state = RunState::Failed;
  const auto ended = [&](std::vector<JobState> states) {
    status.jobs.clear();
    for (const JobState state : states) {
      JobRow job;
      job.job = JobName("job-" + std::to_string(status.jobs.size() + 1));
      job.state = state;
      status.jobs.push_back(job);
    }
    return describe_end(status);
  };
  CHECK(ended({JobState::Running, JobState::Skipped, JobState::Blocked, JobState::Cached,
               JobState::TimedOut, JobState::Failed}) ==
        "demo-7f3a failed: 2 of 6 jobs failed, the first: job-5 timed-out");
  CHECK(ended({JobState::Blocked, JobState::Planned}) == "demo-7f3a failed");
  status.state = RunState::Succeeded;
  CHECK(ended({JobState::Succeeded}) == "demo-7f3a succeeded");
}

TEST_CASE("the last line may be the only one, or empty", "[progress]") {
  const test::TempDir folder;
  CHECK(last_metrics(folder.write("one", "{\"epoch\":1}\n"))->at("epoch") == 1);
  CHECK_FALSE(last_metrics(folder.write("empty", "\n")).has_value());
  CHECK_FALSE(last_metrics(folder.write("number", "{\"epoch\":1}\n7\n")).has_value());
  CHECK(last_metrics(folder.write("nan", "{\"loss\":NaN}\n"))->at("loss") == "NaN");
  // The size that is read of a file, and one less.
  for (const size_t size : {8190, 8191}) {
    const std::string line = "{\"a\":\"" + std::string(size - 8, 'x') + "\"}\n";
    CHECK(last_metrics(folder.write("long", line)).has_value());
  }
}
