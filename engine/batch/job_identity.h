#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/batch/batch_job.h"

namespace dlflow {

/// A job of ours in a batch system. Its number alone proves nothing: numbers begin anew after
/// MaxJobId, and when a controller is rebuilt, so that it may be the number of another user's or
/// another run's job by now.
struct JobIdentity {
  std::string id;          ///< "812", "812_3"
  std::string name_begin;  ///< "demo-1.": the name of a submission without its number in the run,
  std::string name_end;    ///< ".train.5c1e"; empty: any end
  Time since{};            ///< none of the run's jobs was submitted before; a requeue is later

  /// Whether `job`, as the batch system describes it, is this one. A submit time that the batch
  /// system did not print counts for nothing.
  bool is(const BatchJob& job) const;
};

/// The ids of those of `ours` that `known` has.
std::vector<std::string> ids_of_known(std::span<const JobIdentity> ours,
                                      std::span<const BatchJob> known);

/// "job 812 has ended, or its number is another job's by now".
std::string no_longer_ours(const JobIdentity& job);

}  // namespace dlflow
