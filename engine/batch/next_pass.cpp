#include "engine/batch/next_pass.h"

#include <cstdio>
#include <thread>

#include "engine/batch/batch.h"

namespace dlflow {
namespace {

using std::chrono::steady_clock;

/// Asks until there is an answer: without a controller nothing ends the job at its limit.
void request_requeue(const Allocation& allocation) {
  const auto end = steady_clock::now() + allocation.controller_patience;
  for (;; std::this_thread::sleep_for(allocation.controller_patience / 180)) {
    try {
      return allocation.requeue(allocation.id);
    } catch (const Error& error) {
      if (!error.retryable() || steady_clock::now() >= end) throw;
    }
  }
}

}  // namespace

void request_next(const NextPass& next, const Allocation& allocation) {
  request_requeue(allocation);
  if (next.memory_bytes > 0) allocation.raise_memory(allocation.id, next.memory_bytes);
  if (next.limit.count() > 0 && allocation.raise_time_limit)
    allocation.raise_time_limit(allocation.id, next.limit);
}

void record_refusal(const Attempt& attempt, const Error& error, const Allocation& allocation) {
  JobEvent end;
  end.state = JobState::Failed;
  end.reason = std::string("it cannot be requeued: ") + error.what();
  attempt.record(std::move(end), allocation);
}

std::chrono::minutes limit_of(const JobSpec& spec, std::chrono::seconds walltime) {
  Resources longer = spec.resources;
  longer.walltime = walltime;
  Profile place;
  place.limits.walltime = spec.walltime_limit;
  return time_limit(longer, place);
}

int come_back(const std::string& work, const Allocation& allocation) {
  std::fprintf(stderr, "job %s: another job is working on %s; this job checks again later\n",
               allocation.id.c_str(), work.c_str());
  try {
    request_requeue(allocation);
    return allocation.requeue_status;
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return kNotRecorded;
  }
}

}  // namespace dlflow
