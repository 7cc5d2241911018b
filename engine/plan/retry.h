#pragma once

#include <chrono>

#include "engine/model/workflow.h"
#include "engine/plan/job.h"

/// The rules for retrying a job.
namespace dlflow {

/// Whether a job that ended with `ended` gets another attempt. `tries` counts its attempts, the
/// ended one included. Cancelled jobs never get one.
bool should_retry(const Retry& retry, const JobEvent& ended, int tries);

/// Whether the job ran out of memory and `retry` covers that: the next try needs more.
bool wants_more_memory(const Retry& retry, const JobEvent& ended);

/// The walltime of the next try after a try with `walltime` timed out: longer as `retry` asks, but
/// at most `limit` (0: no limit).
std::chrono::seconds next_walltime(const Retry& retry, std::chrono::seconds walltime,
                                   std::chrono::seconds limit);

/// The wait after the `tries`-th attempt: half a second, doubling up to half a minute, so that a
/// short disturbance (a file server restarts) does not use up all attempts.
std::chrono::milliseconds retry_delay(int tries);

}  // namespace dlflow
