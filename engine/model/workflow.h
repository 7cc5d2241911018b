#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/json.h"
#include "engine/model/diagnostic.h"
#include "engine/model/expression.h"

/// A workflow that has passed all checks.
namespace dlflow {

/// The resources of one job. They are derived from `resources:`, including its alternative keys
/// `nodes`, `memory_per_rank` and `memory_per_gpu`.
struct Resources {
  int ranks = 1;
  int cpus_per_rank = 1;
  int gpus_per_rank = 0;
  uint64_t memory_bytes = 0;         ///< per job; 0: not given
  std::chrono::seconds walltime{0};  ///< 0: not given
  int ranks_per_node = 0;            ///< 0: as in the profile
  bool exclusive = false;            ///< nodes that no other job shares
  std::map<std::string, int> licences = {};
  bool alone = false;  ///< no number of ranks is given: the command gets no rank
  bool operator==(const Resources&) const = default;
};

/// The programs that the launcher of a `run:` step starts.
enum class Launch {
  Ranks,  ///< one per rank
  Node,   ///< one per node, which starts the ranks there itself
};

/// `ranks: auto`: the planner chooses the number when a run is planned.
inline constexpr const char* kAutomaticRanks = "auto";

/// Converts `resources:` of one element, with all expressions evaluated. Throws Error{InvalidInput}
/// naming the bad value ("resources.ranks must be a positive integer or auto, not 0").
Resources resources_from_json(const Json& resources);
Json to_json(const Resources& resources);

enum class RetryCause { Failure, NodeFailure, Preempted, Timeout, OutOfMemory };
/// Their names.
inline constexpr std::array<std::string_view, 5> kRetryCauses = {
    "failure", "node-failure", "preempted", "timeout", "out-of-memory"};

struct Retry {
  int attempts = 1;  ///< including the first one
  std::vector<RetryCause> on = {RetryCause::NodeFailure, RetryCause::Preempted,
                                RetryCause::Timeout};
  std::set<int> exit_codes = {};  ///< also in `on`: exit statuses of a failed program
  double memory_factor = 2;       ///< for the next attempt after one that ran out of memory
  double walltime_factor = 1;     ///< for the next attempt after one that timed out
};

/// `checkpoint: {every: 1 epoch | 200 steps | 30m, keep: 2}`, and for a command also how to ask it
/// to save: `{signal: SIGTERM, lead: 5m, newer: "ckpt/*.pt"}`
struct CheckpointPolicy {
  enum class Unit { Epochs, Steps, Seconds };
  enum class Signal { Usr1, Term };
  Unit unit = Unit::Epochs;
  int64_t every = 1;
  int keep = 2;
  Signal signal = Signal::Usr1;  ///< asks the program to save
  std::chrono::seconds lead{0};  ///< time before the walltime; 0: see lead_of()
  /// Pattern of files below $DLFLOW_CHECKPOINTS; a pass has saved if one of them is new. If empty,
  /// the exit status decides.
  std::string newer;
};

/// How long before its walltime a program is asked to save: the `lead` of `policy`, at most half of
/// the walltime; without one a minute, at most a quarter. \param walltime  0: none.
std::chrono::milliseconds lead_of(const std::optional<CheckpointPolicy>& policy,
                                  std::chrono::milliseconds walltime);

/// The folder of the pattern's files, which is also linked into the program's working directory:
/// "ckpt" of "ckpt/*.pt". Empty if the pattern begins with a file or a wildcard.
std::string folder_of_pattern(std::string_view newer);

/// The output of a step that holds the values of an axis: a JSON list in a file.
struct AxisSource {
  std::string step;
  std::string output;
  bool operator==(const AxisSource&) const = default;
};

/// One axis of a matrix with its values, evaluated with params only: strings, numbers and booleans,
/// or mappings with the same keys.
struct MatrixAxis {
  std::string name;
  std::vector<Json> values;
  /// Set if a step decides the values. Until they are known, `values` is one null that stands for
  /// all.
  std::optional<AxisSource> source = {};

  /// Whether the values are not known yet.
  bool is_open() const { return source && values.size() == 1 && values.front().is_null(); }
};

/// The axis that `repeat:` makes. Its value is also in DLFLOW_SEED.
inline constexpr const char* kRepeatAxis = "repeat";

/// The key of a mapping in a matrix that names the element.
inline constexpr const char* kElementName = "name";

struct Matrix {
  std::vector<MatrixAxis> axes;
  std::vector<Json> include;          ///< objects: further elements
  std::vector<Json> exclude;          ///< objects: matching elements are left out
  std::vector<std::string> zip = {};  ///< axes of equal length that advance together
  int max_parallel = 0;               ///< number of elements that run at the same time; 0: no limit
  int pack = 1;  ///< number of elements that share a job of a batch system, one after the other

  bool empty() const { return axes.empty() && include.empty(); }
};

/// Whether a step has not yet decided the values of an axis.
bool has_open_axis(const Matrix& matrix);

/// Whether a step, or the step `source`, decides the values of an axis, or has decided them.
bool takes_list(const Matrix& matrix);
bool takes_list_of(const Matrix& matrix, std::string_view source);

/// The elements of `matrix` in order (last axis fastest), each an object axis -> value. No matrix
/// gives one empty object.
std::vector<Json> matrix_elements(const Matrix& matrix);

/// Whether `exclude` removes this element of the product.
bool is_excluded(const Matrix& matrix, const Json& element);

/// Whether `element` is one of the product of the axes, before `exclude` is applied.
bool is_in_product(const Matrix& matrix, const Json& element);

/// Whether `value` contains `part`: a mapping must have all keys of `part`, with their values.
bool is_part_of(const Json& part, const Json& value);

/// The keys that every element has: the axes, or those of `include` if there are none.
std::vector<std::string> axis_names(const Matrix& matrix);

/// The values of one axis, including those of `include`; may hold duplicates.
std::vector<Json> axis_values(const Matrix& matrix, const std::string& axis);

/// The keys of the values of one axis; none if they are not mappings.
std::vector<std::string> axis_keys(const Matrix& matrix, const std::string& axis);

/// The number of elements before `exclude` is applied; SIZE_MAX on overflow.
size_t max_elements(const Matrix& matrix);

/// The label of an element: "lr=0.1" or "lr=0.1,width=64"; for an axis of mappings
/// "case.batch=64,case.model=lenet", or "case=small" if it has a key `name`; "lr=?" while the
/// values are unknown; empty without a matrix. Usable as a folder name: characters other than
/// letters, digits and "=,.+-_" become "_" (plan.h makes labels unique).
std::string element_label(const Json& element);

/// `require: {accuracy: ">= 0.88"}`
struct Requirement {
  std::string metric;
  std::string comparison;  ///< one of < <= == >= >
  double bound = 0;
};

/// `inputs: [{path: /data/set, hash: content}]`
struct DataInput {
  std::string path;            ///< absolute
  bool content_counts = true;  ///< whether the content is part of the fingerprint
};

/// `reuse: {environment: [LOADEDMODULES], program: true}`
struct ReuseConditions {
  std::vector<std::string> environment;  ///< variables whose values count for reuse
  bool program = false;                  ///< the program in `run: [..]`, as found in PATH, counts
};

/// The name of the release's own image. Names of a workflow's images never contain a space.
inline constexpr const char* kReleaseImage = "dlflow release";

struct Image {
  std::string name;
  std::string from;  ///< docker-archive:FILE, oci:…, docker://…, dir:…
  Digest digest;
  Location location;
  Json build;  ///< null, or run: and env: of a command that modifies the image once
};

/// One step. It either `uses` a step kind (stage, train, checkpoint, evaluate) or `run`s something.
struct Step {
  std::string name;
  Location location;
  std::string uses;                ///< empty if the step has run:
  Template run;                    ///< a string: shell script; a list: argv; otherwise null
  Template with;                   ///< object, checked against the step kind's keys, with defaults
  std::vector<std::string> needs;  ///< from `needs:` and from references, each once
  std::vector<std::string> needed_twice = {};  ///< steps that `needs:` names more than once
  Matrix matrix;
  std::string image;                 ///< name in Workflow::images, or empty
  std::string on;                    ///< the class of nodes; empty: the first that fits
  Template environment;              ///< object, `env:`
  Json tools = Json::object();       ///< `environment:`, to be loaded for its program; see tools.h
  std::set<std::string> secrets;     ///< variables whose values are given when the run is submitted
  std::vector<std::string> inherit;  ///< the caller's, in addition to Profile::inherit: X, X_*
  Template resources;                ///< object; see resources_from_json
  Launch launch = Launch::Ranks;     ///< run: only
  std::optional<CheckpointPolicy> checkpoint;
  Retry retry;
  std::vector<Requirement> require;
  Template condition;          ///< `if:`; null: always
  bool allow_failure = false;  ///< its failure neither fails the run nor blocks other steps
  bool always = false;  ///< `if:` has always(): runs regardless of how the steps it needs end
  std::vector<std::string> inputs;  ///< files the step reads, relative to the workflow
  std::vector<DataInput> data;      ///< other data it reads in place
  ReuseConditions reuse;
  std::map<std::string, std::string> outputs;  ///< run: only; name -> path below $DLFLOW_OUTPUTS
  /// "with.model", "resources.walltime", "needs" -> location of the value; two levels deep.
  std::map<std::string, Location> locations;

  /// The location of the value of `key`, or of the step if it has no such key.
  Location location_of(const std::string& key) const;
};

/// "train"; "run" for a command.
std::string kind_name(const Step& step);

/// The name of the variable that holds a value: environment_name("DLFLOW_PARAM_", "warm-up") is
/// "DLFLOW_PARAM_WARM_UP". Characters other than letters and digits become "_".
std::string environment_name(std::string_view prefix, std::string_view key);

/// `track:`: external programs that show what runs report. Not part of a fingerprint.
struct Trackers {
  bool tensorboard = false;
  std::string mlflow;       ///< a server, http(s)://HOST; empty: unused
  std::string openmetrics;  ///< the file; empty: unused
  /// Python package -> destination: "wandb" -> "offline", "mlflow" -> "sqlite:////FILE".
  std::map<std::string, std::string> clients;

  bool empty() const {
    return !tensorboard && mlflow.empty() && openmetrics.empty() && clients.empty();
  }
};

/// `notify:`: the recipients and events of messages about a run. Not part of a fingerprint.
struct Notifications {
  enum class Event {
    End,         ///< the run has succeeded or failed
    Failure,     ///< a job has failed, with no attempts left
    NoProgress,  ///< a job is not requeued, since it has saved nothing new
  };

  std::set<Event> on;
  std::vector<std::string> command = {};  ///< argv of a program; empty: none
  std::vector<std::string> mail = {};     ///< addresses
  std::string webhook = {};               ///< the secret that holds its address; empty: none
  Location location = {};                 ///< of `notify`

  bool empty() const { return command.empty() && mail.empty() && webhook.empty(); }
};

/// "end", "failure", "no-progress"
std::string_view name(Notifications::Event event);

struct Workflow {
  std::string name;
  std::string file;              ///< as given by the user
  std::string text;              ///< the file's content, frozen with the run
  Json params = Json::object();  ///< after --set
  /// The source text of those numbers among `params` that JSON would write differently: "3.10".
  std::map<std::string, std::string> written = {};
  std::vector<Image> images;
  std::vector<Step> steps;  ///< in file order
  Trackers track;
  Notifications notify;
};

/// The parameters for programs: numbers in `written` are replaced by their text.
Json params_as_written(const Workflow& workflow);

/// "epochs=5" for each of `params`, as accepted by `--set`. \param written  see Workflow::written
std::vector<std::string> settings_of(const Json& params,
                                     const std::map<std::string, std::string>& written);

/// Calls `visit` with `with:` of each element of `step`, as far as it is known before the run; once
/// if the elements do not differ.
void each_known_with(const Workflow& workflow, const Step& step,
                     const std::function<void(Json& with)>& visit);

/// The names of all steps, in file order.
std::vector<std::string> step_names(const Workflow& workflow);

}  // namespace dlflow
