#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "engine/plan/plan.h"

/// The changes that `dlflow resubmit --set` makes to a frozen plan: to the resources of jobs, and
/// to nothing that decides their results. RUN/changes.jsonl has a line for each call that changed
/// something; load_run applies them in that order, so that whoever looks later knows them.
namespace dlflow {

/// "walltime=40m", "memory=2GiB" -> keys of `resources:` as a workflow spells them. Throws
/// Error{InvalidInput}: no such key (with a suggestion; a parameter of the workflow is frozen, and
/// what to do instead is said: \p anew and another `--set`), or a bad value.
Json resource_settings(const std::vector<std::string>& words, const Workflow& workflow,
                       const std::string& anew);

/// `jobs` of `plan` ask for what `settings` says. Throws Error{InvalidInput} if that would change
/// what one of them computes: the ranks of a training whose result depends on them.
void change_resources(Plan& plan, std::span<const uint32_t> jobs, const Json& settings);

/// Adds a line to RUN/changes.jsonl; on disk when it returns. For whoever holds RunLock.
void record_change(const Plan& plan, std::span<const uint32_t> jobs, const Json& settings, Time at);

/// Repeats what RUN/changes.jsonl says; a torn last line says nothing.
void apply_changes(Plan& plan);

/// "walltime 20:00 → 40:00, memory 1.0 GiB → 2.0 GiB"; empty if nothing differs.
std::string words_of_change(const Resources& before, const Resources& now);

}  // namespace dlflow
