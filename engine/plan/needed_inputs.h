#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/model/workflow.h"
#include "engine/plan/job.h"

/// The needs of a job towards those it waits for, where some may fail (`allow_failure`) and some
/// steps run however others end (`if: always()`). Login node and compute nodes decide by the same
/// functions.
namespace dlflow {

/// Failed in a way that `allow_failure` is about: not cancelled, and not for want of its own
/// parents.
bool is_failure(JobState state);

/// Whether a job may run as far as a parent in this state is concerned. \param may_fail  the
/// parent's step is allowed to. \param always  the job runs however its parents end.
bool lets_run(JobState state, bool may_fail, bool always);
bool lets_run(const Step& child, const Step& parent, JobState state);

/// Whether `child` waits for the end of `parent`, not for its success alone.
bool waits_for_end(const Step& child, const Step& parent);

/// By step: whether one that always runs needs it, directly or not. If it can never start it is to
/// end, else that one would wait for ever.
std::vector<bool> steps_before_always(const Workflow& workflow);

/// The parents of one step whose outputs or metrics a job uses, and how many left something.
struct UsedParents {
  std::string step;
  bool is_list = false;  ///< see is_list()
  size_t left = 0;       ///< jobs that left a result
  size_t skipped = 0;
  size_t failed = 0;  ///< allowed to fail, or looked at by a step that always runs
};

/// Whether a job can run with what its parents left.
struct Inputs {
  enum class Kind {
    Enough,
    Skip,   ///< it uses what was skipped, or what failed and was allowed to
    Block,  ///< it uses a list, and all failed
  };
  Kind kind = Kind::Enough;
  std::string step = {};  ///< the step that is to blame
};

/// A list leaves out what was skipped or failed, as long as something is left; a step that always
/// runs may get an empty one.
Inputs judge(const std::vector<UsedParents>& used, bool always);

/// In words, for people: "it uses train, which failed".
std::string words(const Inputs& inputs);

}  // namespace dlflow
