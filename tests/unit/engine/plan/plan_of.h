#pragma once

#include "engine/plan/plan.h"
#include "tests/support/parsed.h"

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

/// Returns a workflow in `folder` whose only step has `keys`.
inline Workflow one_step(const std::string& keys, const std::filesystem::path& folder = "/tmp") {
  return parsed("name: w\nsteps:\n  a: {" + keys + "}\n", folder);
}

/// Returns the base of the step that has `keys`, in a workflow in `folder`.
inline std::string step_base(const std::string& keys, const std::filesystem::path& folder = "/tmp",
                             const Profile& profile = {}) {
  return fingerprint_base(fresh_plan(one_step(keys, folder), profile), 0);
}

}  // namespace dlflow::test
