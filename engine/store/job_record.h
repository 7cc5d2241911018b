#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "engine/plan/job.h"

/// The present of one job as a fold over its events: a row of the table `jobs`.
namespace dlflow {

struct JobRecord {
  JobState state = JobState::Planned;
  int attempt = 0;
  std::optional<Time> started;  ///< of the latest attempt: first running
  std::optional<Time> ended;
  std::string backend_id;
  std::string node;
  std::optional<int> exit;
  std::string reason;
  std::string fingerprint;
  Json outputs;
  Json metrics;
  std::string reused_from;

  bool operator==(const JobRecord&) const = default;
};

/// Moves `record` on by `event`. What came too late (of an earlier attempt, or no legal transition)
/// changes nothing; the first event of a new attempt is always legal.
void apply(JobRecord& record, const JobEvent& event);

}  // namespace dlflow
