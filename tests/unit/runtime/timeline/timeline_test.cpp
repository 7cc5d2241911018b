#include "runtime/timeline/timeline.h"

#include "base/json.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::runtime;

TEST_CASE("a timeline holds spans that begin and end while it records", "[timeline]") {
  Timeline timeline;
  { const Timed timed(timeline, Timeline::Row::Step, "before"); }
  {
    const Timed timed(timeline, Timeline::Row::Step, "begun before");
    timeline.start();
  }
  {
    const Timed outer(timeline, Timeline::Row::Step, "outer");
    const Timed inner(timeline, Timeline::Row::Waiting, "inner");
  }
  {
    const Timed timed(timeline, Timeline::Row::Step, "not ended");
    timeline.stop();
  }
  REQUIRE(timeline.spans().size() == 2);
  const Timeline::Span &inner = timeline.spans()[0], &outer = timeline.spans()[1];
  CHECK(inner.name == "inner");
  CHECK(outer.name == "outer");
  CHECK(outer.begin <= inner.begin);
  CHECK(inner.begin <= inner.end);
  CHECK(inner.end <= outer.end);
}

TEST_CASE("Chrome's trace has a process per rank, a thread per row, and microseconds",
          "[timeline]") {
  Timeline timeline;
  timeline.start();
  const auto begin = Timeline::Clock::now() - std::chrono::milliseconds(5);
  timeline.add(Timeline::Row::Waiting, "all-reduce \"0\"", begin);
  const auto origin = begin - std::chrono::microseconds(250);
  const Json events = Json::parse("[" + chrome_events(timeline, 3, "b2", origin) + "]");

  CHECK(events.front() == Json{{"ph", "M"},
                               {"name", "process_name"},
                               {"pid", 3},
                               {"tid", 0},
                               {"args", {{"name", "rank 3 (b2)"}}}});
  const Json& span = events.back();
  CHECK(span.at("name") == "all-reduce \"0\"");
  CHECK(span.at("pid") == 3);
  CHECK(span.at("tid") == 3);
  CHECK(span.at("ts") == 250.0);
  CHECK(span.at("dur") >= 5000.0);
}
