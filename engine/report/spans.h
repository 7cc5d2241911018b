#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/plan/job.h"

/// The times at which a job waited for resources and ran.
namespace dlflow {

/// A job's time between two events.
struct JobSpan {
  bool running = false;  ///< false: the back end had it, but it had not begun
  int attempt = 0;
  int pass = 0;  ///< within the attempt, from 1; 0 while it waits
  Time begin{};
  std::optional<Time> end;          ///< nothing while it lasts
  std::optional<JobState> outcome;  ///< the job's next state; Queued: it was requeued
  std::string node;
  std::string reason;  ///< the cause of the outcome
  bool operator==(const JobSpan&) const = default;
};

/// Builds the spans from a job's events, in their order. If the clock went back, the span has no
/// length.
std::vector<JobSpan> spans_of(std::span<const JobEvent> events);

}  // namespace dlflow
