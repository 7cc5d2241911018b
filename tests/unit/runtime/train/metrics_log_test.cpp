#include "runtime/train/metrics_log.h"

#include "base/text.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

Json last_line(const std::filesystem::path& file) {
  Json last;
  for (const std::string& line : split(read_file(file), '\n')) {
    if (!line.empty()) last = Json::parse(line);
  }
  return last;
}

}  // namespace

TEST_CASE("an epoch that waited much for its data says so, others only have the number",
          "[metrics]") {
  const test::TempDir dir;
  const auto file = dir.path() / "metrics.jsonl";
  MetricsLog log(file, {3, 2, 0});
  log.step(0, 10, 0.5, 0);
  log.step(1, 10, 0.5, 1000);  // more than the test takes
  log.epoch(0, std::nullopt, std::nullopt);
  CHECK(last_line(file).at("data_wait_s") == 1000);
  CHECK(last_line(file).at("message") == "waited 100 % for data");
  log.step(2, 10, 0.5, 0);
  log.step(3, 10, 0.5, 0);
  log.epoch(1, std::nullopt, std::nullopt);
  CHECK(last_line(file).at("data_wait_s") == 0);
  CHECK_FALSE(last_line(file).contains("message"));
  CHECK(log.data_wait() == 1000);
}
