#pragma once

#include "base/clock.h"
#include "engine/report/style.h"
#include "engine/store/run_status.h"

namespace dlflow::test {

/// The start of these tests' runs.
inline const Time kStart = from_rfc3339("2026-11-21T08:00:00.000Z");

/// A terminal without colours.
inline const Style kPlain{.color = false, .utf8 = true, .width = 80};

/// A job with times that fit its state: it starts at kStart and takes two seconds.
inline JobRow row_of(const std::string& step, JobState state, const std::string& element = "") {
  JobRow job;
  job.step = step;
  job.element = element;
  job.job = element.empty() ? JobName(step) : JobName(step, element);
  job.state = state;
  if (state == JobState::Running || is_final(state)) {
    job.started = kStart;
    job.attempt = 1;
  }
  if (is_final(state)) job.ended = kStart + std::chrono::seconds(2);
  return job;
}

}  // namespace dlflow::test
