#include "engine/report/spans.h"

#include "tests/support/catch.h"
#include "tests/support/report_values.h"

using namespace dlflow;
using namespace dlflow::test;
using namespace std::chrono_literals;

namespace {

JobEvent event(int attempt, JobState state, std::chrono::seconds after,
               const std::string& reason = "") {
  JobEvent made;
  made.attempt = attempt;
  made.state = state;
  made.at = kStart + after;
  made.reason = reason;
  if (state == JobState::Running) made.node = "n1";
  return made;
}

}  // namespace

TEST_CASE("a job that is requeued waits and runs twice in one attempt", "[spans]") {
  const std::vector<JobEvent> events = {
      event(1, JobState::Submitting, 0s), event(1, JobState::Queued, 1s),
      event(1, JobState::Running, 10s),   event(1, JobState::Queued, 70s, "walltime"),
      event(1, JobState::Running, 80s),   event(1, JobState::Succeeded, 90s)};
  const auto spans = spans_of(events);
  REQUIRE(spans.size() == 4);
  CHECK_FALSE(spans[0].running);
  CHECK(spans[0].begin == kStart);
  CHECK(spans[0].end == kStart + 10s);
  CHECK(spans[1].running);
  CHECK(spans[1].pass == 1);
  CHECK(spans[1].node == "n1");
  CHECK(spans[1].outcome == JobState::Queued);
  CHECK(spans[1].reason == "walltime");
  CHECK(spans[3].pass == 2);
  CHECK(spans[3].outcome == JobState::Succeeded);
}

TEST_CASE("passes are counted anew in the next attempt", "[spans]") {
  const auto spans = spans_of(std::vector<JobEvent>{
      event(1, JobState::Running, 0s), event(1, JobState::Failed, 5s, "exit 3"),
      event(1, JobState::Planned, 5s), event(2, JobState::Submitting, 6s),
      event(2, JobState::Running, 7s)});
  REQUIRE(spans.size() == 3);
  CHECK(spans[0].outcome == JobState::Failed);
  CHECK(spans[0].reason == "exit 3");
  CHECK(spans[2].attempt == 2);
  CHECK(spans[2].pass == 1);
  CHECK_FALSE(spans[2].end.has_value());  // it still runs
}

TEST_CASE("a clock that goes back makes no span of negative time", "[spans]") {
  const auto spans = spans_of(
      std::vector<JobEvent>{event(1, JobState::Running, 10s), event(1, JobState::Queued, 4s),
                            event(1, JobState::Running, 5s), event(1, JobState::Succeeded, 6s)});
  REQUIRE(spans.size() == 3);
  for (const JobSpan& span : spans) CHECK(*span.end >= span.begin);
}

TEST_CASE("a job without events, or with only notes, has no spans", "[spans]") {
  CHECK(spans_of({}).empty());
  JobEvent note;
  note.attempt = 1;
  CHECK(spans_of(std::vector<JobEvent>{note}).empty());
}
