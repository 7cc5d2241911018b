#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/plan.h"
#include "engine/store/store.h"

namespace dlflow {

/// Which runs use which results of others: those in the store, and those that unfinished runs plan
/// to reuse by their own records. The store has the latter a moment later or, if the engine was
/// killed, never.
std::vector<Reuse> reuses_of_runs(Store& store);

/// Another unfinished run that makes results that a new one needs, too. They can be reused only
/// once they exist.
struct Twin {
  std::string run;
  size_t jobs = 0;  ///< the number of jobs of the new run that both runs make
  bool operator==(const Twin&) const = default;
};

/// The run in the store that shares most jobs with `plan`; nothing if none does. Jobs that always
/// run do not count, nor those that read a result that only one of the runs makes.
std::optional<Twin> find_twin(const Plan& plan, Store& store);

}  // namespace dlflow
