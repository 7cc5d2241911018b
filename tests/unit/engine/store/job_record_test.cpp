#include "engine/store/job_table.h"
#include "tests/support/catch.h"

using namespace dlflow;

namespace {

Time at(int seconds) { return Time(std::chrono::seconds(seconds)); }

JobEvent event(int attempt, JobState state, int seconds = 0, const std::string& reason = "") {
  JobEvent result;
  result.attempt = attempt;
  result.state = state;
  result.at = at(seconds);
  result.reason = reason;
  return result;
}

JobRecord after(const std::vector<JobEvent>& events) {
  JobRecord record;
  for (const JobEvent& e : events) apply(record, e);
  return record;
}

using enum JobState;

}  // namespace

TEST_CASE("an attempt begins with its first running and ends with its last state", "[record]") {
  const JobRecord record =
      after({event(1, Submitting, 1), event(1, Queued, 2), event(1, Running, 3),
             event(1, Queued, 5, "requeued"), event(1, Running, 6), event(1, Succeeded, 9)});
  CHECK(record.state == Succeeded);
  CHECK(record.attempt == 1);
  CHECK(record.started == at(3));
  CHECK(record.ended == at(9));
  CHECK(record.reason.empty());
}

TEST_CASE("a late event changes nothing", "[record]") {
  CHECK(after({event(1, Submitting), event(1, Running), event(1, Succeeded, 5), event(1, Lost, 6)})
            .state == Succeeded);
  CHECK(after({event(1, Submitting), event(1, Lost), event(1, Planned), event(2, Submitting),
               event(1, Succeeded)})
            .state == Submitting);
}

TEST_CASE("a new attempt forgets the old one", "[record]") {
  const JobRecord record = after({event(1, Submitting), event(1, Running, 3),
                                  event(1, Failed, 4, "exit 3"), event(2, Submitting, 5)});
  CHECK(record == after({event(2, Submitting, 5)}));
}

TEST_CASE("a job that waits for its retry shows the reason", "[record]") {
  const JobRecord record =
      after({event(1, Submitting), event(1, Running, 3), event(1, Lost, 4, "its node is gone"),
             event(1, Planned, 5, "again: its node is gone")});
  CHECK(record.state == Planned);
  CHECK(record.reason == "again: its node is gone");
  CHECK_FALSE(record.ended.has_value());
}

TEST_CASE("a note changes the words and not the state", "[record]") {
  JobEvent note;
  note.attempt = 1;
  note.reason = "saving a checkpoint";
  note.metrics = {{"epoch", 3}};
  const JobRecord record = after({event(1, Submitting), event(1, Running, 3), note});
  CHECK(record.state == Running);
  CHECK(record.reason == "saving a checkpoint");
  CHECK(record.metrics == Json{{"epoch", 3}});
}

TEST_CASE("a repeated state updates the known values", "[record]") {
  JobEvent known = event(1, Submitting, 2);
  known.backend_id = "4711";
  const JobRecord record = after({event(1, Submitting, 1), known});
  CHECK(record.state == Submitting);
  CHECK(record.backend_id == "4711");
}
