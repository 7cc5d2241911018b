#pragma once

#include "engine/plan/plan.h"

namespace dlflow::test {

/// The plan of `workflow` where no earlier result is known.
inline Plan fresh_plan(const Workflow& workflow, const Profile& profile = {},
                       const PlanOptions& options = {}) {
  NothingKnown nothing;
  FreshFileHashes hashes;
  return make_plan(workflow, profile, options, nothing, hashes);
}

/// The plan of `workflow` as run w-0000, if it has `known` results.
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
