#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/model/profile.h"
#include "engine/model/workflow.h"
#include "engine/plan/fingerprint.h"
#include "engine/plan/graph.h"
#include "engine/plan/job.h"

/// Workflow + what is already known -> the jobs of a run. A plan of 100,000 jobs is a few tens of
/// MB: what is large (with, environment, fingerprints) is made for one job when it is asked for.
namespace dlflow {

/// A job that succeeded and whose outputs are still on disk.
struct KnownResult {
  std::string run;
  std::string job;
  std::filesystem::path directory;  ///< its folder, absolute
  std::string fingerprint = {};     ///< JobEvent::fingerprint
  Json outputs = Json::object();    ///< JobEvent::outputs
  Json metrics = Json::object();    ///< JobEvent::metrics
};

/// The results of earlier runs. Implementations: Store, NothingKnown.
class KnownResults {
 public:
  virtual ~KnownResults() = default;

  /// The newest result with this fingerprint of which all that was published is still there,
  /// unchanged, and which was made from what `acting` did elsewhere, jobs of its run, not from what
  /// other runs did in the same place meanwhile.
  virtual std::optional<KnownResult> find(const std::string& fingerprint,
                                          std::span<const std::string> acting) = 0;
};

class NothingKnown : public KnownResults {
 public:
  std::optional<KnownResult> find(const std::string&, std::span<const std::string>) override {
    return std::nullopt;
  }
};

struct PlanOptions {
  std::string until;               ///< plan only this step and what it needs; empty: all
  std::vector<std::string> force;  ///< steps that run even if their results are known
  std::vector<std::string> set;    ///< as it was typed: the workflow has the values
  /// The meaning of `ranks: auto`, by step. A step that is not here, in plans that never run,
  /// has 1.
  std::map<std::string, int> automatic_ranks = {};
  Json predictions = Json::object();  ///< by step, as `dlflow plan --json` has them
  bool common_axes = true;            ///< see step_edge(); false for runs of an earlier version
};

enum class Action {
  Run,
  Reuse,        ///< Plan::reused says what
  DecideLater,  ///< the fingerprint is complete, and looked up, once its parents are done
};

/// Why a job has its action.
enum class Cause {
  NoResult,         ///< Run: no earlier result with this fingerprint
  Forced,           ///< Run: --force
  ActsOutside,      ///< Run: what it does is outside of the run, and looked at there
  Always,           ///< Run: it is there to clean up or to tell, in each run
  NothingChanged,   ///< Reuse
  WaitsForParents,  ///< DecideLater
  WaitsForList,     ///< DecideLater: it stands for as many jobs as a step lists
};
/// In words: "nothing that matters changed".
std::string_view words(Cause cause);

/// The resources of a job that asks for none.
inline const auto kOneRank = std::make_shared<const Resources>();

struct PlannedJob {
  uint32_t step = 0;     ///< index into Plan::workflow.steps
  uint32_t element = 0;  ///< index into Plan::steps[step].elements
  std::string name;      ///< "train[lr=0.1]", unique in the run; the step's name without a matrix
  /// Shared by the jobs of a step that ask for the same.
  std::shared_ptr<const Resources> resources = kOneRank;
  Action action = Action::Run;
  Cause cause = Cause::NoResult;
  std::optional<uint32_t> place;  ///< index into Plan::places; none: the profile has no classes

  /// What stands between the brackets, unique in the step: the name of its folder. Empty without a
  /// matrix.
  std::string_view label() const;
};

using AxisValues = std::vector<Json>;

/// The lists that a step has left for the axes of others, see extension.h.
struct Extension {
  int number = 0;                                  ///< 1, 2, …: of its file
  std::string step;                                ///< that left them
  std::map<std::string, AxisValues> lists = {};    ///< by output
  std::map<std::string, std::string> hashes = {};  ///< of the outputs that held them
  bool operator==(const Extension&) const = default;
};

/// The part of a plan that all jobs of a step share.
struct PlannedStep {
  bool planned = false;  ///< false: not needed for --until
  bool open = false;     ///< an axis has no values yet: its jobs stand for those to come
  std::shared_ptr<const std::vector<Json>> elements;  ///< one empty object without a matrix
  std::vector<std::string> inputs;                    ///< declared inputs, folders expanded
  Json visible_params = Json::object();               ///< see visible_params()
  bool sees_run = false;                              ///< see sees_run()
  Json conditions = Json::object();                   ///< what `reuse:` found: conditions_of()
  int version = 0;  ///< work_version() of the programs that the run has; 0: of an older dlflow
};

struct Plan {
  std::string run;                  ///< "fashion-mnist-7f3a91c0"; empty until it has a directory
  std::filesystem::path directory;  ///< RUN, absolute; the same
  Time created{};                   ///< of the directory
  Workflow workflow;
  Profile profile;
  std::vector<Profile> places;  ///< parallel to profile.classes: the profile as each sees it
  PlanOptions options;
  std::filesystem::path base;      ///< what relative paths in the workflow are relative to
  std::vector<PlannedStep> steps;  ///< parallel to workflow.steps
  std::vector<PlannedJob> jobs;    ///< parents before children, the elements of a step together
  Graph graph;                     ///< over `jobs`
  std::vector<Extension> extensions = {};  ///< that it is laid out with, in their order
  std::string sources = "sources";         ///< the folder of RUN with the copies of `files`
  ContentHashes files;    ///< all files that its steps read and that are copied into the run
  ContentHashes outside;  ///< of data that they read where it lies: data_identity()
  ContentHashes data;     ///< content of `inputs` that lie elsewhere, as far as it counts
  /// Variables of `inherit:` whose values are secrets, see inherited.h.
  std::set<std::string> secret_variables = {};

  /// What the jobs asked for whose resources were changed after the plan was frozen, see changes.h.
  std::map<uint32_t, Resources> changed;

  /// What jobs with Action::Reuse take. The scheduler adds what it decides later, before it asks
  /// for the JobSpec of a dependent.
  std::map<uint32_t, KnownResult> reused;

  /// Jobs that the scheduler has skipped without running them; likewise.
  std::set<uint32_t> skipped;

  /// Jobs that have failed, and for whose dependents that is no obstacle; likewise.
  std::set<uint32_t> failed;
};

/// Throws Error{InvalidInput} naming file, line and column of what cannot be planned: an unknown
/// step in `options`, a bad value in one element's resources, an element without a counterpart in
/// the step it needs, a file that cannot be read.
Plan make_plan(Workflow workflow, const Profile& profile, const PlanOptions& options,
               KnownResults& known, FileHashes& hashes);

/// Where jobs keep what later runs can use: the profile's, or $XDG_CACHE_HOME/dlflow. Throws
/// Error{InvalidInput} if no variable tells.
std::filesystem::path cache_directory(const Profile& profile);

/// The folder of a job, RUN/steps/STEP[/ELEMENT]. The plan must have a directory.
std::filesystem::path job_directory(const Plan& plan, uint32_t job);

/// The text to hash with what the parents left, see fingerprint(). For many jobs: FingerprintBases.
std::string fingerprint_base(const Plan& plan, uint32_t job);

/// `job` as its children see it: where it lies, and what `result` says that it left.
ParentResult as_parent(const Plan& plan, uint32_t job, const KnownResult& result);

/// The parents of `job` as it sees them; `left` says what became of each.
std::vector<ParentResult> parents_as_seen(const Plan& plan, uint32_t job,
                                          const std::function<ParentResult(uint32_t)>& left);

/// The one place that decides what is reused. The rule: a result is reused only if all that its
/// program could see is the same (the fingerprint), and all that it published is still there,
/// unchanged (KnownResults::find). \param base  fingerprint_base() of the job
std::optional<KnownResult> reusable_result(const Plan& plan, uint32_t job, std::string_view base,
                                           std::span<const ParentResult> parents,
                                           KnownResults& known);

/// All that a supervisor needs for one job. Paths are absolute: inputs and models are the frozen
/// copies under RUN/sources, parents that were reused point to the run they come from. Expressions
/// that mention steps stay as they are. `launcher` is the profile's, with the number of ranks; what
/// depends on the machine (root, more ranks than cores) is for the supervisor to add.
///
/// What steps.X.outputs.Y means to a job follows from its parents alone: if X's element is {} or a
/// part of the job's own, there is one parent of X and its value is meant, else the list over all
/// of them.
JobSpec job_spec(const Plan& plan, uint32_t job);

/// The number of the job called `name`; looks at all jobs, so it is for names from a command line.
std::optional<uint32_t> find_job(const Plan& plan, std::string_view name);

}  // namespace dlflow
