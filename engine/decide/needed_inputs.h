#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/model/workflow.h"
#include "engine/plan/job.h"

/// The needs of a job towards its parents, some of which may fail (`allow_failure`), and of steps
/// that run however others end (`if: always()`). Login node and compute nodes use the same
/// functions.
namespace dlflow {

/// Ended without success, so that its dependents cannot run unless they allow for that.
bool is_broken(JobState state);

/// Whether a job may run as far as a parent in this state is concerned. \param may_fail  the
/// parent's step is allowed to. \param always  the job runs however its parents end.
bool lets_run(JobState state, bool may_fail, bool always);
bool lets_run(const Step& child, const Step& parent, JobState state);

/// Whether `child` waits for the end of `parent`, not for its success alone.
bool waits_for_end(const Step& child, const Step& parent);

/// Returns, for each step, whether a step that always runs needs it, directly or not. A job of such
/// a step must end even if it can never start; otherwise the other one would wait forever.
std::vector<bool> steps_before_always(const Workflow& workflow);

/// The state of a parent, as its child uses it.
enum class Left {
  Result,
  Skipped,
  Failed,  ///< it was allowed to fail, or the child always runs
};
/// Decides by the state of a parent that has ended.
Left left_by(JobState state);
/// Decides by the newest record of a parent that published no result. Returns nothing if the child
/// must not run (P3). \param always  the child runs however its parents end.
std::optional<Left> left_without_result(const ParentRef& parent, std::optional<JobState> state,
                                        bool always);

/// Whether a job can run with the results of its parents.
struct Inputs {
  enum class Kind {
    Enough,
    Skip,   ///< it uses a job that was skipped, or that failed and was allowed to
    Block,  ///< it uses a list, and all its jobs failed
  };
  Kind kind = Kind::Enough;
  std::string step = {};  ///< the step that is the reason
};

/// The parents whose outputs or metrics a job uses.
class UsedParents {
 public:
  /// Adds a job of `step`.
  void add(const std::string& step, const Json& element, Left left);

  /// A list leaves out jobs that were skipped or failed, as long as one result remains; a step that
  /// always runs may get an empty list. \param element  of the job that uses them
  Inputs judge(const Json& element, bool always) const;

 private:
  struct Jobs {
    Json element;
    size_t left = 0, skipped = 0, failed = 0;
  };
  std::map<std::string, Jobs> steps_;
};

/// In words, for people: "it uses train, which was skipped or has failed".
std::string words(const Inputs& inputs);

}  // namespace dlflow
