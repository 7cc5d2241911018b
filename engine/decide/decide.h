#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/decide/jobs.h"
#include "engine/plan/plan.h"

/// The one place that decides what happens next to the jobs of a run.
///
/// decide() is a pure function of values: no clock, no disk, no batch system. An executor (the
/// local engine, or a chain's dlflow on the login node) reports the jobs that changed, carries out
/// the decisions, and reports the jobs that these changed, until none is left. Each call looks
/// at the jobs that changed and at their children, never at all jobs. Delays are values; the
/// executor has the clock. Decisions may be made twice, so an executor that was
/// killed is replaced by one that begins with every job (Capabilities::resumes).
///
/// On a compute node the supervisor has the specification of one job only. It uses the rules below
/// decide(): needed_inputs.h for the job's parents (P3), retry.h for its end.
namespace dlflow {

/// The abilities of the executor at this moment, and the permissions of the run.
struct Capabilities {
  /// An earlier executor has dealt with the ends of jobs: none is retried or announced.
  bool resumes = false;
  bool stopping = false;    ///< someone asked the run to end: nothing starts, nothing is retried
  bool failed = false;      ///< a job has failed for good: only steps that always run go on,
  bool keep_going = false;  ///< unless this is set
  /// A step may have left a list, which can make other jobs: none starts before it is laid out.
  bool lists_pending = false;
  bool submitting_is_known = false;  ///< no back end has a job that is Submitting
  /// The jobs that the executor starts; null: all. A batch system starts the others.
  const std::set<uint32_t>* starts = nullptr;
};

/// One action of the executor.
struct Decision {
  enum class Kind {
    Start,     ///< hand it over; again for a job that waits for its next pass
    Reuse,     ///< take the result that Plan::reused has for it
    LookUp,    ///< its fingerprint is complete: take a known result, else start it
    Skip,      ///< it uses a result that is missing, which is allowed
    Block,     ///< it can never run
    TryAgain,  ///< another attempt, `delay` from now
    GiveUp,    ///< it has failed for good
    Withdraw,  ///< take it back: the run ends without it
  };
  Kind kind = Kind::Start;
  uint32_t job = 0;
  std::string reason = {};  ///< in words, for messages
  std::chrono::milliseconds delay{0};
  bool ends_run = false;  ///< for GiveUp: Capabilities::failed holds from now on
};

/// The jobs whose states changed, and why they ended.
using Changes = std::map<uint32_t, std::string>;

/// The decisions on `changed` jobs and their children, the ends of jobs first. `changed` must not
/// have jobs that a back end has now.
std::vector<Decision> decide(const Plan& plan, const Jobs& states, const Changes& changed,
                             const Capabilities& capabilities);

/// The decisions on a run in which nothing is at work and nothing may start any more. If someone
/// asked for the end: jobs that could start are withdrawn. Otherwise the run has failed: those that
/// a step that always runs waits for are blocked, so that it can start.
std::vector<Decision> decide_when_idle(const Plan& plan, const Jobs& states,
                                       const Capabilities& capabilities);

/// Blocks `job` if it waits for a job that ended badly and has not begun.
std::optional<Decision> block_if_hopeless(const Plan& plan, const Jobs& states, uint32_t job,
                                          bool submitting_is_known);

/// The jobs that may have left a list, in the order in which lists are laid out. \param awaited
/// only those whose list a job has yet to take
std::vector<uint32_t> list_sources(const Plan& plan, const Jobs& states, bool awaited);

/// Blocks the jobs that the list of `step` would have made, since the list is refused.
std::vector<Decision> refuse_list(const Plan& plan, const Jobs& states, const std::string& step,
                                  const std::string& reason);

/// Whether a retry is due that an earlier executor could not start. The job has ended, so there was
/// at least one try, even where none are counted.
bool has_a_try_left(const Plan& plan, const Jobs& states, uint32_t job);

/// Whether `job` may start, or be tried again.
bool may_start(const Plan& plan, uint32_t job, const Capabilities& capabilities);

}  // namespace dlflow
