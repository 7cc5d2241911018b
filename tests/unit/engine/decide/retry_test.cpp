#include "engine/decide/retry.h"

#include "tests/support/catch.h"

using namespace dlflow;
using namespace std::chrono_literals;

namespace {

JobEvent ended(JobState state, int exit = 1) {
  JobEvent event;
  event.state = state;
  event.exit = exit;
  return event;
}

}  // namespace

TEST_CASE("each way of ending is retried for its own cause", "[retry]") {
  const auto retried = [](RetryCause cause, const JobEvent& event) {
    return should_retry({.attempts = 2, .on = {cause}}, event, 1);
  };
  CHECK(retried(RetryCause::Failure, ended(JobState::Failed)));
  CHECK(retried(RetryCause::Timeout, ended(JobState::TimedOut)));
  CHECK(retried(RetryCause::NodeFailure, ended(JobState::Lost)));
  CHECK(retried(RetryCause::OutOfMemory, ended(JobState::Failed, 137)));
  JobEvent preempted = ended(JobState::Lost);
  preempted.preempted = true;
  CHECK(retried(RetryCause::Preempted, preempted));
  CHECK_FALSE(retried(RetryCause::NodeFailure, preempted));
  CHECK_FALSE(retried(RetryCause::Preempted, ended(JobState::Lost)));
  CHECK_FALSE(retried(RetryCause::OutOfMemory, ended(JobState::Failed, 1)));
  CHECK_FALSE(retried(RetryCause::Failure, ended(JobState::Lost)));
  CHECK_FALSE(retried(RetryCause::Failure, ended(JobState::Cancelled)));
}

TEST_CASE("no attempt follows the last one", "[retry]") {
  const Retry retry{.attempts = 3, .on = {RetryCause::Failure}};
  CHECK(should_retry(retry, ended(JobState::Failed), 2));
  CHECK_FALSE(should_retry(retry, ended(JobState::Failed), 3));
}

TEST_CASE("pauses double up to half a minute", "[retry]") {
  CHECK(retry_delay(1) == 500ms);
  CHECK(retry_delay(2) == 1s);
  CHECK(retry_delay(7) == 30s);
  CHECK(retry_delay(1000) == 30s);
}

TEST_CASE("a program is tried again after the named exit statuses", "[retry]") {
  const Retry retry{.attempts = 3, .on = {}, .exit_codes = {3, 139}};
  CHECK(should_retry(retry, ended(JobState::Failed, 3), 1));
  CHECK(should_retry(retry, ended(JobState::Failed, 139), 2));
  CHECK_FALSE(should_retry(retry, ended(JobState::Failed, 3), 3));
  CHECK_FALSE(should_retry(retry, ended(JobState::Failed, 4), 1));
  CHECK_FALSE(should_retry(retry, ended(JobState::TimedOut, 3), 1));
  JobEvent unknown = ended(JobState::Failed);
  unknown.exit.reset();
  CHECK_FALSE(should_retry(retry, unknown, 1));
}

TEST_CASE("a walltime grows by its factor, up to the limit and never down", "[retry]") {
  const Retry retry{.attempts = 3, .walltime_factor = 1.5};
  CHECK(next_walltime(retry, 100s, 0s) == 150s);
  CHECK(next_walltime(retry, 100s, 120s) == 120s);
  CHECK(next_walltime(retry, 100s, 90s) == 100s);
  CHECK(next_walltime({.attempts = 3}, 100s, 0s) == 100s);
}
