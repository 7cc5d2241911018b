#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/plan.h"
#include "engine/store/store.h"

namespace dlflow {

/// Which runs use which results of others: those that the store knows of, and those that runs which
/// have not ended are to reuse by their own records. The store has these a moment later, or, of an
/// engine that was killed, never.
std::vector<Reuse> reuses_of_runs(Store& store);

/// Another run that has not ended, and makes results that a new one needs, too. They can be reused
/// only when they are there.
struct Twin {
  std::string run;
  size_t jobs = 0;  ///< of the new run, that are made in both
  bool operator==(const Twin&) const = default;
};

/// The one that shares most jobs with `plan`, which the store has; nothing if none does. Jobs that
/// are to run in any case are not counted, nor those that read what only one of the runs makes.
std::optional<Twin> find_twin(const Plan& plan, Store& store);

}  // namespace dlflow
