#include "engine/cli/outcome.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "base/text.h"
#include "engine/cli/exit_status.h"
#include "engine/cli/run_display.h"
#include "engine/cli/tracking.h"
#include "engine/report/chain_text.h"

namespace dlflow {
namespace {

std::string count(size_t number, const char* what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

/// What was done with the scheduler's queue.
void print_queued(const Plan& plan, const ChainResult& result, const Style& style) {
  if (!result.submitted.empty()) {
    std::fputs(chain_text(plan, result.submitted, style).c_str(), stdout);
    if (!result.excluded_nodes.empty()) {
      std::printf("  without %s, where jobs were lost: dlflow status --nodes\n",
                  join(result.excluded_nodes, ", ").c_str());
    }
  }
  for (const std::string& job : result.adopted) {
    std::printf("  %s was submitted before, and is adopted\n", job.c_str());
  }
  constexpr size_t kListed = 10;
  const size_t listed = std::min(kListed, result.repointed.size());
  for (size_t i = 0; i < listed; ++i) {
    std::printf("  %s waits for the new jobs now\n", result.repointed[i].c_str());
  }
  if (const size_t more = result.repointed.size() - listed; more > 0) {
    std::printf("  and %s more\n", count(more, "job").c_str());
  }
}

/// What people have to do for the rest of the run, or may.
void print_left_to_do(const Plan& plan, const ChainResult& result) {
  for (const std::string& job : result.too_early) {
    std::printf(
        "  %s runs already, without what runs again now. To repeat it: dlflow cancel %s --step "
        "%s,\n"
        "  then dlflow resubmit %s --step %s --from-scratch\n",
        job.c_str(), plan.run.c_str(), shell_quote(job).c_str(), plan.run.c_str(),
        shell_quote(job).c_str());
  }
  if (result.held_back > 0) {
    std::printf(
        "%s not submitted yet: %s allows %d at a time. When some have ended,\n"
        "`dlflow run --resume %s` submits more.\n",
        count(result.held_back, "job").c_str(), plan.profile.name.c_str(), plan.profile.limits.jobs,
        plan.run.c_str());
  }
  for (const std::string& job : result.failed_here) {
    std::printf("  %s failed on the login node: dlflow logs %s %s, then dlflow resubmit %s\n",
                job.c_str(), plan.run.c_str(), job.c_str(), plan.run.c_str());
  }
  for (const std::string& job : result.later_here) {
    std::printf(
        "  %s runs on the login node, once what it needs has ended: then\n"
        "  `dlflow run --resume %s`\n",
        job.c_str(), plan.run.c_str());
  }
}

void print_submitted(const Session& session, const Plan& plan, const ChainResult& result) {
  if (session.quiet) return;
  print_queued(plan, result, session.style());
  print_left_to_do(plan, result);
  if (result.interrupted) {
    std::printf("Stopped; nothing was submitted. `dlflow run --resume %s` goes on.\n",
                plan.run.c_str());
    return;
  }
  if (result.kept > 0) std::printf("%s kept.\n", count(result.kept, "finished job").c_str());
  const bool nothing = result.submitted.empty() && result.adopted.empty();
  std::printf("%s look again with `dlflow status`.\n",
              nothing ? "There was nothing to submit;" : "Submitted. Nothing keeps running here;");
}

}  // namespace

void report_outcome(Session& session, const Plan& plan, const Outcome& outcome) {
  if (session.json) print_run_json(plan.run, outcome.state);
  if (outcome.chain) {
    if (outcome.chain->held_back > 0) session.status = kBackendRefused;
    if (!outcome.chain->failed_here.empty()) session.status = kStepFailed;
    if (outcome.interrupted) session.status = kInterrupted;
    if (!session.json) print_submitted(session, plan, *outcome.chain);
    return;
  }
  keep_track(session, plan.run);
  if (!plan.workflow.track.clients.empty() && !session.quiet && !session.json) {
    std::printf("  trackers  dlflow sync %s\n", plan.run.c_str());
  }
  session.status = outcome.interrupted                    ? kInterrupted
                   : outcome.state == RunState::Succeeded ? kDone
                                                          : kStepFailed;
}

void report_detached(Session& session, const Plan& plan, const Outcome& outcome) {
  if (outcome.chain) return report_outcome(session, plan, outcome);
  if (session.json) return print_run_json(plan.run, RunState::Running);
  std::printf("%s runs in the background; look again with `dlflow status %s`.\n", plan.run.c_str(),
              plan.run.c_str());
}

void report_cancelled(const Session& session, const std::string& run, const Cancelled& cancelled) {
  if (session.json) {
    const bool chain = cancelled.chain.has_value();
    return print_json({{"run", run},
                       {"ended", cancelled.ended},
                       {"cancelled", chain ? Json(cancelled.chain->cancelled) : Json()},
                       {"saving", chain ? Json(cancelled.chain->saving) : Json()}});
  }
  if (session.quiet) return;
  if (!cancelled.chain) {
    std::printf(cancelled.ended
                    ? "%s has stopped.\n"
                    : "%s was asked to stop and is still saving; `dlflow cancel` again kills it.\n",
                run.c_str());
    return;
  }
  std::printf("%s cancelled", count(cancelled.chain->cancelled, "job").c_str());
  if (cancelled.chain->saving > 0) {
    std::printf(", %s asked to save and to end; `dlflow cancel` again kills",
                count(cancelled.chain->saving, "job").c_str());
  }
  std::printf(".\n");
}

}  // namespace dlflow
