#pragma once

#include "engine/plan/plan.h"

namespace dlflow::test {

/// Returns the plan of `workflow` without any earlier result.
inline Plan fresh_plan(const Workflow& workflow, const Profile& profile = {},
                       const PlanOptions& options = {}) {
  NothingKnown nothing;
  FreshFileHashes hashes;
  return make_plan(workflow, profile, options, nothing, hashes);
}

/// Returns the plan of `workflow` as run w-0000, with the `known` results.
inline Plan plan_of(const Workflow& workflow, const PlanOptions& options = {},
                    KnownResults* known = nullptr) {
  NothingKnown nothing;
  FreshFileHashes hashes;
  Plan plan = make_plan(workflow, Profile(), options, known != nullptr ? *known : nothing, hashes);
  plan.run = "w-0000";
  plan.directory = "/runs/w-0000";
  return plan;
}

}  // namespace dlflow::test
