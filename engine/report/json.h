#pragma once

#include <span>

#include "base/json.h"
#include "engine/plan/explain.h"
#include "engine/plan/plan.h"
#include "engine/store/store.h"

/// The output of --json. docs/user/json.md describes every field; fields are only ever added.
namespace dlflow {

Json to_json(const RunStatus& status);
Json to_json(const RunSummary& summary);
Json to_json(const Explanation& explanation);

/// The resources that a job asked for, and those that it used; null if they are not known.
Json asked_json(const JobRow& job);
Json usage_json(const JobRow& job);

/// The plan of `run --dry-run --json`, and of `graph --json`. \param answers  explain(plan), or
/// empty: what the plan alone has
Json to_json(const Plan& plan, std::span<const Explanation> answers = {});

}  // namespace dlflow
