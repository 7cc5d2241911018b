#include "engine/run/chain/lists.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/fault.h"
#include "base/text.h"
#include "engine/batch/limits.h"
#include "engine/plan/extension.h"
#include "engine/run/again.h"
#include "engine/run/local/parent_results.h"

namespace dlflow {
namespace {

/// Jobs that the batch system may have were made for the earlier list.
void check_idle(const Plan& plan, const Jobs& jobs, uint32_t source) {
  for (const uint32_t job : descendants_of(plan, source)) {
    if (!is_under_way(jobs[job].state)) continue;
    const std::string& step = plan.workflow.steps[plan.jobs[job].step].name;
    throw Error(Errc::InvalidInput,
                plan.jobs[source].name + " has written a new list, and " + plan.jobs[job].name +
                    " waits or runs with the earlier list; type `dlflow cancel " + plan.run +
                    " --step " + shell_quote(step) + "`, then repeat this command");
  }
}

struct NextList {
  uint32_t source = 0;  ///< the job that left it
  Extension extension;
};

/// The next list that is not laid out; nothing if there is none.
std::optional<NextList> next_list(const ChainRun& run, bool from_job, FoundLists& found) {
  const Plan& plan = run.plan();
  const Jobs& jobs = run.jobs();
  const ChainServices& services = run.services();
  const ParentResults results(plan, jobs);
  for (const uint32_t job : list_sources(plan, jobs, from_job)) {
    const std::string& name = run.step_of(job).name;
    if (found.refused.contains(name)) continue;
    try {
      auto extension = extension_for(plan, results.of(job));
      if (!extension) continue;
      check_limits(extended(plan, *extension), services.batch, std::nullopt);
      if (has_list_of(plan, name)) keep_listed_results(plan, jobs, job, services.store);
      return NextList{job, std::move(*extension)};
    } catch (const Error& error) {
      if (error.retryable()) throw;
      found.refused[name] = error.what();
    }
  }
  return std::nullopt;
}

}  // namespace

bool fans_out(const Plan& plan) {
  return std::ranges::any_of(plan.workflow.steps, takes_list, &Step::matrix);
}

FoundLists lay_out_lists(std::optional<ChainRun>& run, bool from_job) {
  FoundLists found;
  if (!fans_out(run->plan())) return found;
  while (const auto next = next_list(*run, from_job, found)) {
    if (has_list_of(run->plan(), next->extension.step)) {
      check_idle(run->plan(), run->jobs(), next->source);
      plan_listed_again(run->plan(), run->jobs(), next->source, run->record().planner());
      run->save();
      crash_point("listed again");
    }
    crash_point("list");
    const std::filesystem::path directory = run->plan().directory;
    write_extension(directory, next->extension);
    crash_point("extension");
    found.any = true;
    run.emplace(directory, run->services());
  }
  return found;
}

void block_refused(ChainRun& run, const FoundLists& found) {
  for (const auto& [source, reason] : found.refused) {
    for (const Decision& decision : refuse_list(run.plan(), run.jobs(), source, reason)) {
      run.record().decide(decision);
    }
  }
  if (!found.refused.empty()) run.block_hopeless();
}

void reuse_listed(ChainRun& run) {
  if (!fans_out(run.plan())) return;
  const ParentResults results(run.plan(), run.jobs());
  const auto left = [&results](uint32_t parent) { return results.of(parent); };
  for (uint32_t job = 0; job < run.jobs().size(); ++job) {
    const bool is_meant =
        !is_open(run.plan(), job) && run.plan().jobs[job].action == Action::DecideLater;
    if (!is_meant || run.jobs()[job].state != JobState::Planned) continue;
    bool all_left_something = true;
    run.plan().graph.each_parent(job, [&](uint32_t parent) {
      all_left_something &=
          satisfies_dependents(run.jobs()[parent].state) || run.plan().reused.contains(parent);
    });
    if (!all_left_something) continue;
    auto known = reusable_result(run.plan(), job, fingerprint_base(run.plan(), job),
                                 parents_as_seen(run.plan(), job, left), run.services().store);
    if (known) run.plan().reused[job] = std::move(*known);
  }
}

}  // namespace dlflow
