#include "engine/decide/retry.h"

#include <algorithm>

namespace dlflow {
namespace {

/// 128 + SIGKILL: without another explanation, the kernel sent it because memory ran out.
constexpr int kKilled = 137;

bool is_cause(RetryCause cause, const JobEvent& ended) {
  switch (cause) {
    case RetryCause::Failure:
      return ended.state == JobState::Failed;
    case RetryCause::OutOfMemory:
      return ended.state == JobState::Failed && ended.exit == kKilled;
    case RetryCause::Timeout:
      return ended.state == JobState::TimedOut;
    case RetryCause::NodeFailure:
      return ended.state == JobState::Lost && !ended.preempted;
    case RetryCause::Preempted:
      return ended.state == JobState::Lost && ended.preempted;
  }
  return false;
}

}  // namespace

bool should_retry(const Retry& retry, const JobEvent& ended, int tries) {
  const bool is_code =
      ended.state == JobState::Failed && ended.exit && retry.exit_codes.contains(*ended.exit);
  return tries < retry.attempts &&
         (is_code || std::any_of(retry.on.begin(), retry.on.end(),
                                 [&ended](RetryCause cause) { return is_cause(cause, ended); }));
}

bool wants_more_memory(const Retry& retry, std::optional<int> exit) {
  return exit == kKilled &&
         std::find(retry.on.begin(), retry.on.end(), RetryCause::OutOfMemory) != retry.on.end();
}

std::chrono::milliseconds retry_delay(int tries) {
  using namespace std::chrono_literals;
  std::chrono::milliseconds delay = 500ms;
  for (int i = 1; i < tries && delay < 30s; ++i) delay *= 2;
  return std::min<std::chrono::milliseconds>(delay, 30s);
}

std::string next_try_in_words(const Retry& retry, int tries, const std::string& reason,
                              const std::string& with) {
  return "try " + std::to_string(tries + 1) + " of " + std::to_string(retry.attempts) + " follows" +
         with + "; the previous one: " + reason;
}

}  // namespace dlflow
