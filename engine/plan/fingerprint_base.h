#pragma once

#include <string>
#include <vector>

#include "engine/plan/plan.h"

/// The base of a fingerprint: everything that a job's result depends on and that is known when a
/// run is planned.
namespace dlflow {

/// The bases of the jobs of a plan: texts for fingerprint(). Each is a JSON object with sorted
/// keys; absent parts are left out. It holds step kind and version, command, `with`, environment,
/// names of secrets, condition, known values in expressions that wait for parents, parameters that
/// reach its environment, image, files, `require`, `checkpoint`, `outputs`, the metrics and axes of
/// parents that it refers to, the job's name and resources, the relevant part of the profile, and
/// the conditions found for `reuse:`. Not in it: walltime, memory, retries, the run directory.
///
/// This object makes the parts that all elements of a step share only once. While it is used, only
/// the results in the plan and the actions of its jobs may change.
class FingerprintBases {
 public:
  explicit FingerprintBases(const Plan& plan) : plan_(plan) {}

  std::string of(uint32_t job);

 private:
  struct Piece {
    std::string shared;  // comes first
    size_t own = 0;      // index of the next part in the table; the table's size: none
  };
  void share(uint32_t job);

  const Plan& plan_;
  const PlannedJob* like_ = nullptr;  // the job that the pieces were made for
  std::vector<Piece> pieces_;
};

}  // namespace dlflow
