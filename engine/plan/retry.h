#pragma once

#include <chrono>

#include "engine/model/workflow.h"
#include "engine/plan/job.h"

/// The rules for trying a job again.
namespace dlflow {

/// Whether a job that ended with `ended` gets another attempt. `tries` is how many it has had, the
/// one that ended included. Cancelled jobs never do.
bool should_retry(const Retry& retry, const JobEvent& ended, int tries);

/// Whether the job ended for want of memory, and `retry` names that: the next try is to have more.
bool wants_more_memory(const Retry& retry, const JobEvent& ended);

/// The walltime of the next try of a job whose last try had `walltime` and timed out: longer by
/// `retry`, but not above `limit` (0: none).
std::chrono::seconds next_walltime(const Retry& retry, std::chrono::seconds walltime,
                                   std::chrono::seconds limit);

/// How long the next attempt waits after the `tries`-th: half a second, doubling up to half a
/// minute, so that a short disturbance (a file server that restarts) does not eat all attempts.
std::chrono::milliseconds retry_delay(int tries);

}  // namespace dlflow
