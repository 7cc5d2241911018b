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

/// Workflow + known results -> the jobs of a run. A plan of 100,000 jobs takes a few tens of MB:
/// large values (with, environment, fingerprints) are made for one job at a time, on request.
namespace dlflow {

/// A job that succeeded and whose outputs are still on disk.
struct KnownResult {
  std::string run;
  JobName job;
  std::filesystem::path directory;  ///< its folder, absolute
  Fingerprint fingerprint = {};     ///< JobEvent::fingerprint
  Json outputs = Json::object();    ///< JobEvent::outputs
  Json metrics = Json::object();    ///< JobEvent::metrics
};

/// The results of earlier runs. Implementations: Store, NothingKnown.
class KnownResults {
 public:
  virtual ~KnownResults() = default;

  /// The newest result with this fingerprint whose published files are all there, unchanged. It
  /// must also be based on what the jobs `acting` of its own run did elsewhere, not on what other
  /// runs did in the same place since.
  virtual std::optional<KnownResult> find(const Fingerprint& fingerprint,
                                          std::span<const std::string> acting) = 0;
};

class NothingKnown : public KnownResults {
 public:
  std::optional<KnownResult> find(const Fingerprint&, std::span<const std::string>) override {
    return std::nullopt;
  }
};

struct PlanOptions {
  std::string until;               ///< plan only this step and what it needs; empty: all
  std::vector<std::string> force;  ///< steps that run even if their results are known
  std::vector<std::string> set;    ///< as typed; `workflow` has the values
  /// The meaning of `ranks: auto`, by step; 1 if a step is missing here, as in plans that never
  /// run.
  std::map<std::string, int> automatic_ranks = {};
  Json predictions = Json::object();  ///< by step, as `dlflow plan --json` has them
  bool common_axes = true;            ///< see step_edge(); false for runs of an earlier version
};

enum class Action {
  Run,
  Reuse,        ///< the result is in Plan::reused
  DecideLater,  ///< once its parents have ended, its fingerprint is completed and looked up
};

/// Why a job has its action.
enum class Cause {
  NoResult,         ///< Run: no earlier result with this fingerprint
  Forced,           ///< Run: --force
  ActsOutside,      ///< Run: its effect is outside of the run and checked there
  Always,           ///< Run: it cleans up or notifies, in each run
  NothingChanged,   ///< Reuse
  WaitsForParents,  ///< DecideLater
  WaitsForList,     ///< DecideLater: it stands for as many jobs as a step will list
};
/// For people: "nothing relevant changed".
std::string_view words(Cause cause);

/// The resources of a job that requests none.
inline const auto one_rank = std::make_shared<const Resources>();

struct PlannedJob {
  uint32_t step = 0;     ///< index into Plan::workflow.steps
  uint32_t element = 0;  ///< index into Plan::steps[step].elements
  JobName name;
  /// Shared by the jobs of a step with equal requests.
  std::shared_ptr<const Resources> resources = one_rank;
  Action action = Action::Run;
  Cause cause = Cause::NoResult;
  std::optional<uint32_t> place;  ///< index into Plan::places; none: the profile has no classes
};

using AxisValues = std::vector<Json>;

/// The lists that a step left for the axes of other steps, see extension.h.
struct Extension {
  int number = 0;                                  ///< number of its file: 1, 2, …
  std::string step;                                ///< the step that left the lists
  std::map<std::string, AxisValues> lists = {};    ///< by output
  std::map<std::string, std::string> hashes = {};  ///< of the outputs that held the lists
  bool operator==(const Extension&) const = default;
};

/// A step as it was found when the run was planned.
struct FrozenStep {
  std::vector<std::string> inputs;       ///< declared inputs, folders expanded
  Json visible_params = Json::object();  ///< see visible_params()
  bool sees_run = false;                 ///< see sees_run()
  Json conditions = Json::object();      ///< what `reuse:` found: conditions_of()
  int version = 0;  ///< work_version() of the run's programs; 0: from an older dlflow
};

/// The part of a plan that all jobs of a step share.
struct PlannedStep : FrozenStep {
  bool planned = false;  ///< false: not needed for --until
  bool open = false;     ///< an axis has no values yet: its jobs stand for future ones
  std::shared_ptr<const std::vector<Json>> elements;  ///< one empty object without a matrix
};

struct Plan {
  std::string run;                  ///< "fashion-mnist-7f3a91c0"; empty until it has a directory
  std::filesystem::path directory;  ///< RUN, absolute; empty until then
  Time created{};                   ///< when the directory was created
  Workflow workflow;
  Profile profile;
  std::vector<Profile> places;  ///< the profile for each of profile.classes
  PlanOptions options;
  std::filesystem::path base;      ///< the folder of relative paths in the workflow
  std::vector<PlannedStep> steps;  ///< parallel to workflow.steps
  std::vector<PlannedJob> jobs;    ///< parents before children, the elements of a step together
  Graph graph;                     ///< over `jobs`
  std::vector<Extension> extensions = {};  ///< its extensions, in their order
  std::string sources = "sources";         ///< the folder of RUN with the copies of `files`
  ContentHashes files;    ///< all files that its steps read and that are copied into RUN
  ContentHashes outside;  ///< data that steps read in place: data_identity()
  ContentHashes data;     ///< content of `inputs` that lie elsewhere, if it counts
  /// Variables of `inherit:` whose values are secrets, see inherited.h.
  std::set<std::string> secret_variables = {};

  /// The original resources of jobs that were changed after the plan was frozen, see changes.h.
  std::map<uint32_t, Resources> changed;

  /// The results that jobs with Action::Reuse take. The scheduler adds later decisions before it
  /// requests the JobSpec of a dependent.
  std::map<uint32_t, KnownResult> reused;

  /// Jobs that the scheduler skipped without running them; added likewise.
  std::set<uint32_t> skipped;

  /// Jobs that failed without blocking their dependents; added likewise.
  std::set<uint32_t> failed;
};

/// Throws Error{InvalidInput} with file, line and column if something cannot be planned: an unknown
/// step in `options`, a bad value in one element's resources, an element without a counterpart in a
/// step that it needs, an unreadable file.
Plan make_plan(Workflow workflow, const Profile& profile, const PlanOptions& options,
               KnownResults& known, FileHashes& hashes);

/// Where jobs keep data for later runs: the profile's folder, or $XDG_CACHE_HOME/dlflow. Throws
/// Error{InvalidInput} if no variable names a folder.
std::filesystem::path cache_directory(const Profile& profile);

/// The folder of a job, RUN/steps/STEP[/ELEMENT]. The plan must have a directory.
std::filesystem::path job_directory(const Plan& plan, uint32_t job);

/// The text to hash with the parents' outputs, see fingerprint(). For many jobs: FingerprintBases.
std::string fingerprint_base(const Plan& plan, uint32_t job);

/// `job` as its children see it: its folder, and the outputs in `result`.
ParentResult as_parent(const Plan& plan, uint32_t job, const KnownResult& result);

/// The parents of `job` as it sees them; `left` returns the result of each.
std::vector<ParentResult> parents_as_seen(const Plan& plan, uint32_t job,
                                          const std::function<ParentResult(uint32_t)>& left);

/// The one place that decides about reuse. A result is reused only if everything that its program
/// could see is the same (the fingerprint), and all published files are still there, unchanged
/// (KnownResults::find). \param base  fingerprint_base() of the job
std::optional<KnownResult> reusable_result(const Plan& plan, uint32_t job, std::string_view base,
                                           std::span<const ParentResult> parents,
                                           KnownResults& known);

/// Everything that a supervisor needs for one job. Paths are absolute: inputs and models are the
/// frozen copies under RUN/sources; reused parents point to the runs that they come from.
/// Expressions that mention steps are left unevaluated. `launcher` is the profile's, with the
/// number of ranks; the supervisor adds what depends on the machine (root, more ranks than cores).
///
/// The meaning of steps.X.outputs.Y follows from the job's parents alone: if X's element is {} or a
/// part of the job's own, there is one parent of X and it means that parent's value, otherwise the
/// list over all of them.
JobSpec job_spec(const Plan& plan, uint32_t job);

/// The number of the job called `name`. A linear search, meant for names from a command line.
std::optional<uint32_t> find_job(const Plan& plan, std::string_view name);

}  // namespace dlflow
