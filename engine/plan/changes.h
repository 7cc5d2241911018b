#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "engine/plan/plan.h"

/// The changes that `dlflow resubmit --set` makes to a frozen plan. They concern the resources of
/// jobs, and nothing that decides their results. RUN/changes.jsonl has a line for each call that
/// changed something; load_run applies them in that order.
namespace dlflow {

/// Parses "walltime=40m", "memory=2GiB" to keys of `resources:` as a workflow spells them. Throws
/// Error{InvalidInput} for a bad value or an unknown key, with a suggestion. Parameters of the
/// workflow are frozen; the message for one advises \p anew and another `--set`.
Json resource_settings(const std::vector<std::string>& words, const Workflow& workflow,
                       const std::string& anew);

/// Applies `settings` to the resources of `jobs`. Throws Error{InvalidInput} if that would change a
/// result: the ranks of a training whose result depends on them.
void change_resources(Plan& plan, std::span<const uint32_t> jobs, const Json& settings);

/// Adds a line to RUN/changes.jsonl and syncs it. The caller must hold RunLock.
void record_change(const Plan& plan, std::span<const uint32_t> jobs, const Json& settings, Time at);

/// Applies the changes in RUN/changes.jsonl; ignores a torn last line.
void apply_changes(Plan& plan);

/// "walltime 20:00 → 40:00, memory 1.0 GiB → 2.0 GiB"; empty if nothing differs.
std::string words_of_change(const Resources& before, const Resources& now);

}  // namespace dlflow
