#pragma once

#include <string>
#include <vector>

#include "engine/plan/plan.h"

/// Why each job of a plan runs or is reused: `dlflow explain`.
namespace dlflow {

/// The base of an earlier fingerprint, see fingerprint_base().
struct EarlierBase {
  std::string run;  ///< the run that computed the result
  std::string text;
};

/// The fingerprints of earlier runs. Implementation: Store.
class History {
 public:
  virtual ~History() = default;

  /// The bases of succeeded jobs of `step` in runs of `workflow` before `run` (in all runs if it is
  /// empty). Jobs called `job` come first, then newer ones; returns only a handful.
  virtual std::vector<EarlierBase> earlier(const std::string& workflow, const std::string& step,
                                           const JobName& job, const std::string& run) = 0;

  /// The run that computed the result of `job` of `run`: another one if the result was reused.
  virtual std::string maker(const std::string& run, const JobName& job) = 0;

  /// Why the newest earlier result with this fingerprint is not reused; nothing if there is none.
  /// \param fingerprint  none: the fingerprint of `job` of `run`
  virtual std::string refusal(const Fingerprint& fingerprint, const std::string& run,
                              const JobName& job) = 0;
};

/// "parameter epochs": 3 -> 30. A missing value is empty.
struct Difference {
  std::string what;
  std::string before;
  std::string now;
  bool operator==(const Difference&) const = default;
};

struct Explanation {
  JobName job;
  Action verdict = Action::Run;
  std::string from;  ///< the run that computed the reused or compared result, if any
  std::vector<Difference> differences;  ///< from the nearest earlier fingerprint
  std::string reason;                   ///< everything in words: "parameter epochs: 3 → 30"
  std::string outcome = {};             ///< "ran", of a job that has ended
};

/// One explanation per job, in plan order; `plan` may come from load_run. The verdict is Run for a
/// job that would wait for its parents' outputs if its own part has changed already.
std::vector<Explanation> explain(const Plan& plan, History& history);

/// The differences between two bases; `before` is the older. A value that comes from a parameter or
/// a matrix axis is named after it.
std::vector<Difference> differences(const Json& before, const Json& now, const Step& step);

}  // namespace dlflow
