#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/model/workflow.h"
#include "engine/plan/job.h"

/// The rules for running a job after its parents when some may fail (`allow_failure`) and some
/// steps always run (`if: always()`), used on login nodes and compute nodes alike.
namespace dlflow {

/// Whether `allow_failure` covers this state: not a cancelled job, nor one blocked by its parents.
bool is_failure(JobState state);

/// Whether a parent in this state lets a job run. \param may_fail  the parent's step has
/// `allow_failure`. \param always  the job runs however its parents end.
bool lets_run(JobState state, bool may_fail, bool always);
bool lets_run(const Step& child, const Step& parent, JobState state);

/// Whether `child` waits for `parent` to end rather than to succeed.
bool waits_for_end(const Step& child, const Step& parent);

/// Marks each step that a step with `always` needs, directly or indirectly. If it can never start
/// it must still end; otherwise the other would wait forever.
std::vector<bool> steps_before_always(const Workflow& workflow);

/// The parents of one step whose outputs or metrics a job uses, with counts of how they ended.
struct UsedParents {
  std::string step;
  bool is_list = false;  ///< see is_list()
  size_t left = 0;       ///< jobs that left a result
  size_t skipped = 0;
  size_t failed = 0;  ///< with `allow_failure`, or seen by a step that always runs
};

/// Whether the outputs of its parents suffice for a job.
struct Inputs {
  enum class Kind {
    Enough,
    Skip,   ///< it uses a parent that was skipped, or failed with `allow_failure`
    Block,  ///< it uses a list whose jobs all failed
  };
  Kind kind = Kind::Enough;
  std::string step = {};  ///< the parent's step
};

/// Skipped and failed jobs are left out of a list as long as something is left; a step that always
/// runs may get an empty list.
Inputs judge(const std::vector<UsedParents>& used, bool always);

/// For people: "it uses train, which failed".
std::string words(const Inputs& inputs);

}  // namespace dlflow
