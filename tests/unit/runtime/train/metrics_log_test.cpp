#include "runtime/train/metrics_log.h"

#include <chrono>

#include "base/text.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

struct LogFile {
  test::TempDir dir;
  std::filesystem::path file = dir.path() / "metrics.jsonl";
};

/// A log in a folder of its own.
struct Logged : LogFile, MetricsLog {
  explicit Logged(Run run) : MetricsLog(file, run) {}

  std::vector<std::string> lines() const { return split(read_file(file), '\n'); }

  /// The last one; each ends with a line break.
  Json last() const { return Json::parse(lines().end()[-2]); }
};

}  // namespace

TEST_CASE("only an epoch that waited long for its data prints that, and all log the time",
          "[metrics]") {
  Logged log({3, 2, 0});
  log.step({.step = 0, .samples = 10, .loss = 0.5, .data_wait_s = 0});
  log.step(
      {.step = 1, .samples = 10, .loss = 0.5, .data_wait_s = 1000});  // more than the test takes
  log.epoch(0, std::nullopt, std::nullopt);
  CHECK(log.last().at("data_wait_s") == 1000);
  CHECK(log.last().at("message") == "waited 100 % for data");
  log.step({.step = 2, .samples = 10, .loss = 0.5, .data_wait_s = 0});
  log.step({.step = 3, .samples = 10, .loss = 0.5, .data_wait_s = 0});
  log.epoch(1, std::nullopt, std::nullopt);
  CHECK(log.last().at("data_wait_s") == 0);
  CHECK_FALSE(log.last().contains("message"));
  CHECK(log.data_wait() == 1000);
}

TEST_CASE("a line has its time, the learning rate, and the gradient's norm if known", "[metrics]") {
  Logged log({2, 1, 0});
  log.step({.step = 0, .samples = 10, .loss = 0.5, .learning_rate = 0.25, .gradient_norm = 3});
  const Json line = log.last();
  CHECK(line.at("learning_rate") == 0.25);
  CHECK(line.at("gradient_norm") == 3);
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  CHECK(line.at("at").get<double>() == Approx(now).margin(60));
}

TEST_CASE("the wait for other ranks is logged per epoch, and for all steps at the end",
          "[metrics]") {
  Logged log({2, 1, 0});
  CHECK_FALSE(log.communication_wait().has_value());
  log.step({.step = 0, .samples = 10, .loss = 0.5, .communication_wait_s = 2});
  log.epoch(0, std::nullopt, std::nullopt);
  CHECK(log.last().at("communication_wait_s") == 2);
  log.step({.step = 1, .samples = 10, .loss = 0.5, .communication_wait_s = 0.5});
  log.epoch(1, std::nullopt, std::nullopt);
  CHECK(log.last().at("communication_wait_s") == 0.5);
  CHECK(log.communication_wait() == 2.5);
}

TEST_CASE("an epoch's loss is the mean of its own steps, weighted by samples", "[metrics]") {
  Logged log({2, 1, 0});
  log.step({.step = 0, .samples = 10, .loss = 8});
  log.epoch(0, std::nullopt, std::nullopt);
  CHECK(log.last().at("loss") == 8);
  log.step({.step = 1, .samples = 10, .loss = 2});
  log.epoch(1, std::nullopt, std::nullopt);
  CHECK(log.last().at("loss") == 2);
}

TEST_CASE("steps that follow each other fast share a line", "[metrics]") {
  Logged log({1000, 1000, 0});
  for (uint64_t step = 0; step < 1000; ++step) log.step({.step = step, .samples = 10, .loss = 1});
  CHECK(log.lines().size() < 500);
}

TEST_CASE("the last step of each epoch has a line with its loss, however fast epochs are",
          "[metrics]") {
  Logged log({15, 10, 0});
  for (uint64_t step = 0; step < 150; ++step) {
    log.step({.step = step, .samples = 10, .loss = double(step)});
    if (step % 10 != 9) continue;
    CHECK(log.last().at("step") == step + 1);
    CHECK(log.last().contains("loss"));
    log.epoch(step / 10, std::nullopt, std::nullopt);
  }
}
