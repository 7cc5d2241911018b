#include "engine/report/results.h"
#include "engine/report/usage.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace std::chrono_literals;

namespace {

Result result(int repeat, double lr, const Json& metrics) {
  Result made;
  made.run = "sweep-1";
  made.step = "train";
  made.matrix = {{"lr", lr}, {kRepeatAxis, repeat}};
  made.metrics = metrics;
  return made;
}

JobRow job(JobState state, std::chrono::milliseconds elapsed, std::chrono::milliseconds cpu,
           uint64_t memory_bytes) {
  JobRow row;
  row.state = state;
  row.asked = Resources{.ranks = 1,
                        .cpus_per_rank = 8,
                        .gpus_per_rank = 0,
                        .memory_bytes = uint64_t{16} << 30,
                        .walltime = 4h};
  row.usage =
      JobUsage{.elapsed = elapsed, .cpu_time = cpu, .cpus = 0, .memory_bytes = memory_bytes};
  return row;
}

JobSpan ran(std::chrono::milliseconds time) {
  JobSpan span;
  span.running = true;
  span.end = span.begin + time;
  return span;
}

}  // namespace

TEST_CASE("repeats of a job are one estimate with Student's interval", "[comparison]") {
  const std::vector<Result> results = {
      result(1, 0.1, {{"accuracy", 0.90}}), result(2, 0.1, {{"accuracy", 0.92}}),
      result(3, 0.1, {{"accuracy", 0.94}, {"loss", "NaN"}}), result(1, 0.5, {{"accuracy", 0.5}}),
      result(2, 0.5, Json::object())};
  const auto compared = compare(results);
  REQUIRE(compared.size() == 2);
  CHECK(compared[0].job == "train[lr=0.1]");
  const Estimate& three = compared[0].metrics.at("accuracy");
  CHECK(three.mean == Approx(0.92));
  // 4.303 times 0.02 / sqrt(3)
  REQUIRE(three.interval.has_value());
  CHECK(three.interval->first == Approx(0.92 - 0.049687).margin(1e-5));
  CHECK(three.interval->second == Approx(0.92 + 0.049687).margin(1e-5));
  CHECK(compared[0].metrics.count("loss") == 0);
  CHECK_FALSE(compared[1].metrics.at("accuracy").interval.has_value());
}

TEST_CASE("the interval of many values is nearly the normal one", "[comparison]") {
  std::vector<double> values;
  for (int i = 0; i < 61; ++i) values.push_back(i % 2);
  const Estimate estimate = estimate_of(values);
  // t with 60 degrees of freedom: 2.0003
  const double deviation = 0.5 * std::sqrt((1 - 1.0 / 61 / 61) * 61 / 60);
  CHECK(estimate.interval->second - estimate.mean ==
        Approx(2.0003 * deviation / std::sqrt(61)).epsilon(1e-4));
}

TEST_CASE("a job that used little gets advice for smaller requests", "[advice]") {
  const std::vector<JobSpan> spans = {ran(20min)};
  const auto advice = advice_for(job(JobState::Succeeded, 20min, 40min, uint64_t{3} << 30), spans);
  REQUIRE(advice.size() == 3);
  CHECK(advice[0] == "cores were busy 25 % of the time: cpus_per_rank: 3 may be enough");
  CHECK(advice[1] == "used 19 % of its memory: memory: 4GiB leaves a reserve");
  CHECK(advice[2] == "ran 20:00 of 4:00:00: walltime: 30m may start sooner");
  const auto here =
      advice_for(job(JobState::Succeeded, 20min, 40min, uint64_t{3} << 30), spans, false);
  CHECK(here.size() == 2);
}

TEST_CASE("a job that fits, is short or was not measured gets no advice", "[advice]") {
  const std::vector<JobSpan> spans = {ran(3h)};
  CHECK(advice_for(job(JobState::Succeeded, 3h, 20h, uint64_t{12} << 30), spans).empty());
  CHECK(advice_for(job(JobState::Running, 20min, 1min, 1 << 20), spans).empty());
  JobRow unknown = job(JobState::Succeeded, 3h, 20h, 0);
  unknown.usage.reset();
  CHECK(advice_for(unknown, spans).empty());
}

TEST_CASE("a job that failed with its memory full is advised to ask for more", "[advice]") {
  const auto advice = advice_for(job(JobState::Failed, 2h, 15h, uint64_t{16} << 30), {});
  REQUIRE(advice.size() == 1);
  CHECK(advice[0] == "100 % of its memory was used: write memory: 21GiB");
}

TEST_CASE("a job that reached its walltime gets advice", "[advice]") {
  const auto advice = advice_for(job(JobState::TimedOut, 4h, 30h, uint64_t{12} << 30),
                                 std::vector<JobSpan>{ran(4h)});
  REQUIRE(advice.size() == 1);
  CHECK(advice[0] == "its walltime was too short: ask for more, or save with `checkpoint:`");
}
