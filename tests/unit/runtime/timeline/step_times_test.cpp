#include "runtime/timeline/step_times.h"

#include "tests/support/catch.h"

using namespace dlflow::runtime;

namespace {

using Row = Timeline::Row;

const Timeline::Clock::time_point kStart{std::chrono::seconds(100)};

/// A span in milliseconds after the start of the timeline.
Timeline::Span span(Row row, const std::string& name, int begin, int end) {
  return {row, name, kStart + std::chrono::milliseconds(begin),
          kStart + std::chrono::milliseconds(end)};
}

}  // namespace

TEST_CASE("a span counts without its inner spans, and all sum to the steps' time", "[timeline]") {
  const std::vector<Timeline::Span> spans = {
      span(Row::Computation, "load", 0, 1),
      span(Row::Waiting, "gradients a", 2, 4),
      span(Row::Computation, "a", 1, 10),
      span(Row::Computation, "update", 12, 15),
      span(Row::Computation, "sum of gradients", 11, 16),
      span(Row::Computation, "a backward", 10, 20),
      span(Row::Communication, "gradients a", 16, 30),
      span(Row::Step, "step", 0, 22),
      span(Row::Computation, "end of epoch", 22, 40),  // outside of steps
      span(Row::Computation, "a", 41, 45),
      span(Row::Step, "step", 40, 50),
  };
  const StepTimes times = step_times(spans);
  CHECK(times.steps == std::vector{0.022, 0.010});
  const auto is = [&](const std::string& name, double time) {
    return times.computation.at(name) == Approx(time);
  };
  CHECK(is("load", 0.001));
  CHECK(is("a", 0.007 + 0.004));
  CHECK(is("a backward", 0.005));
  CHECK(is("sum of gradients", 0.002));
  CHECK(is("update", 0.003));
  CHECK(times.computation.size() == 5);
  CHECK(times.waiting == Approx(0.002));
  CHECK(times.other == Approx(0.002 + 0.006));
}

TEST_CASE("the time of each sum is the median over steps with all sums", "[timeline]") {
  std::vector<Timeline::Span> spans;
  for (const auto& [begin, first, second] :
       {std::tuple(0, 5, 8), std::tuple(20, 6, 9), std::tuple(40, 7, 19)}) {
    spans.push_back(span(Row::Step, "step", begin, begin + 20));
    spans.push_back(span(Row::Communication, "late", begin + second, begin + 30));
    spans.push_back(span(Row::Communication, "early", begin + first, begin + 10));
  }
  spans.push_back(span(Row::Step, "step", 60, 80));
  const StepTimes times = step_times(spans);
  REQUIRE(times.ready.size() == 2);
  CHECK(times.ready[0] == Approx(0.006));
  CHECK(times.ready[1] == Approx(0.009));
  CHECK(step_times({}).ready.empty());
}

TEST_CASE("a quantile is one of the values", "[timeline]") {
  const std::vector<double> values = {5, 1, 3, 2, 4};
  CHECK(quantile(values, 0) == 1);
  CHECK(quantile(values, 0.5) == 3);
  CHECK(quantile(values, 1) == 5);
}
