#pragma once

#include <string>
#include <vector>

#include "engine/plan/plan.h"

/// The base of a fingerprint: what its job's result depends on, as far as it is known when a run is
/// planned.
namespace dlflow {

/// The bases of the jobs of a plan: texts for fingerprint(). Each is a JSON object, its keys in
/// order and absent parts left out, with step kind and version, command, `with`, environment, names
/// of secrets, condition, the values in expressions that wait for parents, those that reach its
/// environment, image, files, what `require`, `checkpoint` and `outputs` ask for, the metrics and
/// axes of parents that it refers to; what the job is called and has, what its profile says, what
/// `reuse:` found. Not in it: walltime, memory, retries, the run directory.
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
    size_t own = 0;      // the part behind it, by its place in the table; its size: none
  };
  void share(uint32_t job);

  const Plan& plan_;
  const PlannedJob* like_ = nullptr;  // whose pieces these are
  std::vector<Piece> pieces_;
};

}  // namespace dlflow
