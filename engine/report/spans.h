#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/plan/job.h"

/// The times of a job: when it waited for a place, and when it ran.
namespace dlflow {

/// A job between two events.
struct JobSpan {
  bool running = false;  ///< else it was with the back end and had not begun
  int attempt = 0;
  int pass = 0;  ///< of the attempt, from 1; 0 while it waits
  Time begin{};
  std::optional<Time> end;          ///< nothing: it goes on
  std::optional<JobState> outcome;  ///< what the job became; Queued: it was requeued
  std::string node;
  std::string reason;  ///< of the outcome
  bool operator==(const JobSpan&) const = default;
};

/// From a job's events, in their order. A clock that goes back makes a span of no time.
std::vector<JobSpan> spans_of(std::span<const JobEvent> events);

}  // namespace dlflow
