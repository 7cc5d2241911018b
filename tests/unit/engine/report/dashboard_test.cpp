#include "engine/report/dashboard.h"

#include "base/file.h"
#include "base/text.h"
#include "engine/plan/run_directory.h"
#include "tests/support/catch.h"
#include "tests/support/report_values.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::test;
using namespace std::chrono_literals;

namespace {

RunView swept_view(size_t elements) {
  RunView view;
  view.status.run = "sweep-7f3a91c0";
  view.status.profile = "alpha";
  view.status.started = kStart;
  for (size_t i = 0; i < elements; ++i) {
    const JobState states[] = {JobState::Running, JobState::Succeeded, JobState::Failed};
    JobRow row = row_of("train", states[i % 3], "lr=" + std::to_string(i));
    row.started = kStart + 1s;
    if (row.state != JobState::Running) row.ended = kStart + std::chrono::seconds(10 + i);
    if (row.state == JobState::Failed) row.reason = "exit 3: loss is NaN at step 412";
    view.status.jobs.push_back(row);
  }
  return view;
}

Losses falling(const RunView& view) {
  Losses losses;
  for (const JobRow& job : view.status.jobs) {
    if (job.state != JobState::Running) continue;
    for (int i = 0; i < 200; ++i) losses[job.job].push_back(1.0 / (1 + i));
  }
  return losses;
}

}  // namespace

TEST_CASE("a sparkline goes from the least to the most", "[dashboard]") {
  CHECK(sparkline(std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}, 20, kPlain) == "▁▂▃▄▅▆▇█");
  CHECK(sparkline(std::vector<double>{0, 0, 4, 4}, 2, kPlain) == "▁█");
  CHECK(sparkline(std::vector<double>{5, 5}, 2, kPlain) == "▁▁");
  CHECK(sparkline({}, 10, kPlain).empty());
  CHECK(sparkline(std::vector<double>{0, 1}, 2, {.color = false, .utf8 = false, .width = 80}) ==
        "_#");
}

TEST_CASE("the dashboard fits into any terminal and shows the important values", "[dashboard]") {
  const size_t rows = GENERATE(10, 23, 59);
  const int width = GENERATE(40, 80, 120, 200);
  const size_t elements = GENERATE(1, 7, 11, 300);
  Style style = kPlain;
  style.width = width;
  const RunView view = swept_view(elements);
  const auto lines = dashboard(view, falling(view), kStart + 100s, rows, style);
  CHECK(lines.size() <= rows);
  for (const std::string& line : lines) CHECK(display_width(line) <= size_t(width));
  CHECK(lines.at(0).find("sweep-7f3a91c0") == 0);
  if (width >= 80 && rows > 20) {
    const std::string all = join(lines, "\n");
    CHECK(all.find("LOSS") != all.npos);
    CHECK(all.find("█") != all.npos);
    CHECK(all.find("▁▁▁▁") != all.npos);
    if (elements > 1) CHECK(all.find("ENDED LAST") != all.npos);
  }
}

TEST_CASE("a wide terminal has losses beside the jobs", "[dashboard]") {
  Style style = kPlain;
  style.width = 200;
  const RunView view = swept_view(7);
  const auto lines = dashboard(view, falling(view), kStart + 100s, 59, style);
  CHECK(lines.at(3).find("LOSS") > 100);
  CHECK(lines.at(3).find("train[lr=0]") < 10);
}

TEST_CASE("losses of running jobs come before those of ended jobs", "[dashboard]") {
  const test::TempDir folder;
  RunView view = swept_view(6);
  for (JobRow& job : view.status.jobs) {
    job.directory = (folder.path() / job.element).string();
    const auto attempt = attempt_directory(job.directory, 1);
    make_directories(attempt);
    write_file(attempt / "metrics.jsonl", "{\"loss\": 2}\n{\"loss\": 1}\n");
  }
  const Losses losses = read_losses(view.status, 3);
  CHECK(losses.size() == 3);
  CHECK(losses.count("train[lr=0]") == 1);
  CHECK(losses.count("train[lr=3]") == 1);
  CHECK(losses.at("train[lr=0]") == std::vector<double>{2, 1});
}
