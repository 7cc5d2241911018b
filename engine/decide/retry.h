#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "engine/model/workflow.h"
#include "engine/plan/job.h"

/// The rules for retrying a job.
namespace dlflow {

/// Whether a job that ended with `ended` gets another attempt. `tries` counts its attempts, the
/// ended one included. Cancelled jobs never get one.
bool should_retry(const Retry& retry, const JobEvent& ended, int tries);

/// Whether a failure with exit status `exit` is a lack of memory, and `retry` lists that: the next
/// try gets more.
bool wants_more_memory(const Retry& retry, std::optional<int> exit);

/// The pause after the `tries`-th attempt: half a second, doubling up to half a minute, so that a
/// short disturbance (a file server that restarts) does not use up all attempts.
std::chrono::milliseconds retry_delay(int tries);

/// "try 2 of 3 follows with 2 GiB; the previous one: exit 3".
/// \param with  what the next try gets more of: " with 2 GiB"
std::string next_try_in_words(const Retry& retry, int tries, const std::string& reason,
                              const std::string& with = "");

}  // namespace dlflow
