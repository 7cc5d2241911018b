#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "engine/backend/backend.h"
#include "engine/run/record.h"

namespace dlflow {

/// The jobs of a run that a Backend has: of the local engine, and of a chain's login node.
struct HandedOver {
  const Plan& plan;
  RunRecord& record;
  Backend& backend;
  std::set<uint32_t> jobs = {};                   ///< not ended
  std::map<uint32_t, uint64_t> events_read = {};  ///< of recovered attempts, see Submission

  Submission submission(uint32_t job) const;

  /// Takes over a job that an earlier dlflow handed over, or was about to: it is watched, or found
  /// to be lost. Returns whether it is still to be handed over, as the same attempt and pass.
  bool recover(uint32_t job);

  /// Records the intent to start the job: its next attempt, or the one that was to be started.
  void intend(uint32_t job);

  /// Hands over the attempt, or its next pass.
  void start(uint32_t job);

  /// Records the update. Returns whether a pass has ended.
  bool take(const Update& update);

  void stop(Stop how) const;
};

}  // namespace dlflow
