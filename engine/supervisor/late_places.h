#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/json.h"
#include "engine/plan/fingerprint.h"
#include "engine/plan/job.h"

/// Data that a step names by what its parents left, as in `data: "/data/${{ steps.a.metrics.year
/// }}"`: the plan could not look at it, and so it is not in the fingerprint.
namespace dlflow {

/// The first such place, in words: one that neither the plan knew nor an output of a parent holds.
/// \param with  the evaluated `with:` of the job
std::optional<std::string> find_late_place(const JobSpec& spec, const Json& with,
                                           std::span<const ParentResult> parents);

}  // namespace dlflow
