#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "engine/model/diagnostic.h"
#include "engine/model/expression.h"

/// A workflow: what a file says once it is known to be right.
namespace dlflow {

/// The resources of one job. `resources: {nodes, memory_per_rank, memory_per_gpu}` say the same in
/// other words: what is here is worked out from them.
struct Resources {
  int ranks = 1;
  int cpus_per_rank = 1;
  int gpus_per_rank = 0;
  uint64_t memory_bytes = 0;         ///< per job; 0: not said
  std::chrono::seconds walltime{0};  ///< 0: not said
  int ranks_per_node = 0;            ///< 0: as the profile says
  bool exclusive = false;            ///< nodes that no other job shares
  std::map<std::string, int> licences = {};
  bool alone = false;  ///< no number of ranks is given: a command is told of no rank
  bool operator==(const Resources&) const = default;
};

/// The programs of a `run:` step that its launcher starts.
enum class Launch {
  Ranks,  ///< one per rank
  Node,   ///< one per node, which starts the ranks there itself
};

/// `ranks: auto`: as many as the planner recommends when a run is planned.
inline constexpr const char* kAutomaticRanks = "auto";

/// `resources:` of one element, all expressions evaluated. Throws Error{InvalidInput} in the words
/// of the bad value ("resources.ranks must be a positive integer or auto, not 0").
Resources resources_from_json(const Json& resources);
Json to_json(const Resources& resources);

enum class RetryCause { Failure, NodeFailure, Preempted, Timeout, OutOfMemory };

struct Retry {
  int attempts = 1;  ///< in all, the first one included
  std::vector<RetryCause> on = {RetryCause::NodeFailure, RetryCause::Preempted,
                                RetryCause::Timeout};
  std::set<int> exit_codes = {};  ///< also in `on`: exit statuses of a failed program
  double memory_factor = 2;       ///< of the next try after one for want of memory
  double walltime_factor = 1;     ///< of the next try after one that timed out
};

/// `checkpoint: {every: 1 epoch | 200 steps | 30m, keep: 2}`, and of a command what asks it to
/// save:
/// `{signal: SIGTERM, lead: 5m, newer: "ckpt/*.pt"}`
struct CheckpointPolicy {
  enum class Unit { Epochs, Steps, Seconds };
  enum class Signal { Usr1, Term };
  Unit unit = Unit::Epochs;
  int64_t every = 1;
  int keep = 2;
  Signal signal = Signal::Usr1;  ///< what the program is asked by
  std::chrono::seconds lead{0};  ///< how long before the walltime; 0: lead_of()
  /// Files below $DLFLOW_CHECKPOINTS, one of which is new where a pass has saved; empty: the exit
  /// status says it.
  std::string newer;
};

/// How long before its walltime a program is asked to save: as `policy` says, or a minute; but at
/// most half of the walltime, without a `lead` a quarter. \param walltime  0: none.
std::chrono::milliseconds lead_of(const std::optional<CheckpointPolicy>& policy,
                                  std::chrono::milliseconds walltime);

/// The folder of the pattern's files that a program finds in its working directory, too: "ckpt" of
/// "ckpt/*.pt"; empty if the pattern begins with a file or a wildcard.
std::string folder_of_pattern(std::string_view newer);

/// The output of a step that holds the values of an axis: a JSON list in a file.
struct AxisSource {
  std::string step;
  std::string output;
  bool operator==(const AxisSource&) const = default;
};

/// One axis of a matrix, its values evaluated (params only): strings, numbers and booleans, or
/// mappings that all have the same keys.
struct MatrixAxis {
  std::string name;
  std::vector<Json> values;
  /// Of an axis whose values a step decides. Until they are known, `values` is one null, which
  /// stands for all of them.
  std::optional<AxisSource> source = {};

  /// Whether the values are not known yet.
  bool is_open() const { return source && values.size() == 1 && values.front().is_null(); }
};

/// The axis that `repeat:` makes. Its value is also in DLFLOW_SEED.
inline constexpr const char* kRepeatAxis = "repeat";

/// The key of a mapping in a matrix that the element is called by.
inline constexpr const char* kElementName = "name";

struct Matrix {
  std::vector<MatrixAxis> axes;
  std::vector<Json> include;          ///< objects: further elements
  std::vector<Json> exclude;          ///< objects: elements that match are left out
  std::vector<std::string> zip = {};  ///< axes of equal length that go together, value by value
  int max_parallel = 0;  ///< how many elements run at a time; 0: as many as there is room for
  int pack = 1;          ///< how many elements share a job of a batch system, one after the other

  bool empty() const { return axes.empty() && include.empty(); }
};

/// Whether a step has yet to decide the values of an axis.
bool has_open_axis(const Matrix& matrix);

/// Whether a step, or the step `source`, decides the values of an axis, or has decided them.
bool takes_list(const Matrix& matrix);
bool takes_list_of(const Matrix& matrix, std::string_view source);

/// The elements of `matrix` in order (last axis fastest), each an object axis -> value; one empty
/// object for no matrix.
std::vector<Json> matrix_elements(const Matrix& matrix);

/// Whether `exclude` leaves this element of the product out.
bool is_excluded(const Matrix& matrix, const Json& element);

/// Whether `element` is one of the product of the axes, before `exclude` is applied.
bool is_in_product(const Matrix& matrix, const Json& element);

/// Whether `value` has all that `part` has: of mappings the keys of `part`, each with its value.
bool is_part_of(const Json& part, const Json& value);

/// The keys that every element has: the axes, or those of `include` if there are none.
std::vector<std::string> axis_names(const Matrix& matrix);

/// The values of one axis, those of `include` among them; perhaps some twice.
std::vector<Json> axis_values(const Matrix& matrix, const std::string& axis);

/// The keys of the values of one axis; none if they are no mappings.
std::vector<std::string> axis_keys(const Matrix& matrix, const std::string& axis);

/// How many elements there are before `exclude` is applied; SIZE_MAX if there are more than that.
size_t max_elements(const Matrix& matrix);

/// How an element is called: "lr=0.1" or "lr=0.1,width=64"; of an axis of mappings
/// "case.batch=64,case.model=lenet", or "case=small" if it has a key `name`; "lr=?" as long as the
/// values are not known; empty without a matrix. Usable as a folder name: other characters than
/// letters, digits and "=,.+-_" become "_" (plan.h makes them unique).
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
  bool content_counts = true;  ///< for the fingerprint
};

/// `reuse: {environment: [LOADEDMODULES], program: true}`
struct ReuseConditions {
  std::vector<std::string> environment;  ///< variables whose values count
  bool program = false;  ///< the first word of `run: [..]`, as PATH finds it, counts
};

/// The name that the release's own image has among those of a workflow, which never have a space.
inline constexpr const char* kReleaseImage = "dlflow release";

struct Image {
  std::string name;
  std::string from;  ///< docker-archive:FILE, oci:…, docker://…, dir:…
  std::string digest;
  Location location;
  Json build;  ///< null, or run: and env: of a command that changes the image once
};

/// One step. It either `uses` a step kind (stage, train, checkpoint, evaluate) or `run`s something.
struct Step {
  std::string name;
  Location location;
  std::string uses;  ///< empty for run:
  Template run;      ///< a string: shell script; a list: argv; else null
  Template with;     ///< object, checked against the step kind's keys, defaults filled in
  std::vector<std::string> needs;              ///< given and implied by references, each once
  std::vector<std::string> needed_twice = {};  ///< those that `needs:` names more than once
  Matrix matrix;
  std::string image;              ///< name in Workflow::images, or empty
  std::string on;                 ///< the class of nodes that it names; empty: the first that fits
  Template environment;           ///< object, `env:`
  Json tools = Json::object();    ///< `environment:`, what its program finds loaded; see tools.h
  std::set<std::string> secrets;  ///< variables whose values come when the run is submitted
  std::vector<std::string> inherit;  ///< variables of the caller, beside Profile::inherit: X, X_*
  Template resources;                ///< object; see resources_from_json
  Launch launch = Launch::Ranks;     ///< run: only
  std::optional<CheckpointPolicy> checkpoint;
  Retry retry;
  std::vector<Requirement> require;
  Template condition;               ///< `if:`; null: always
  bool allow_failure = false;       ///< its failure is not the run's, and blocks nothing
  bool always = false;              ///< `if:` has always(): it runs however those that it needs end
  std::vector<std::string> inputs;  ///< files the step reads, relative to the workflow
  std::vector<DataInput> data;      ///< what else it reads, where it lies
  ReuseConditions reuse;
  std::map<std::string, std::string> outputs;  ///< run: only; name -> path below $DLFLOW_OUTPUTS
  /// "with.model", "resources.walltime", "needs" -> where the value stands; two levels deep.
  std::map<std::string, Location> locations;

  /// Where the value of `key` stands; of a key that is not there, the step.
  Location location_of(const std::string& key) const;
};

/// "train"; of a command "run".
std::string kind_name(const Step& step);

/// The name of the variable that holds a value: environment_name("DLFLOW_PARAM_", "warm-up") is
/// "DLFLOW_PARAM_WARM_UP". Other characters than letters and digits become "_".
std::string environment_name(std::string_view prefix, std::string_view key);

/// `track:`: programs of others that show what runs reported. Nothing here enters a fingerprint.
struct Trackers {
  bool tensorboard = false;
  std::string mlflow;       ///< a server, http(s)://HOST; empty: not
  std::string openmetrics;  ///< the file; empty: not
  /// Package of Python -> place: "wandb" -> "offline", "mlflow" -> "sqlite:////FILE".
  std::map<std::string, std::string> clients;

  bool empty() const {
    return !tensorboard && mlflow.empty() && openmetrics.empty() && clients.empty();
  }
};

/// `notify:`: who is told what becomes of a run, and when. Nothing here enters a fingerprint.
struct Notifications {
  enum class Event {
    End,         ///< the run has succeeded or failed
    Failure,     ///< a job has failed for good
    NoProgress,  ///< a job is not requeued again, since it has saved nothing new
  };

  std::set<Event> on;
  std::vector<std::string> command = {};  ///< argv of a program; empty: none
  std::vector<std::string> mail = {};     ///< addresses
  std::string webhook = {};               ///< the secret that has its address; empty: none
  Location location = {};                 ///< of `notify`

  bool empty() const { return command.empty() && mail.empty() && webhook.empty(); }
};

/// "end", "failure", "no-progress"
std::string_view name(Notifications::Event event);

struct Workflow {
  std::string name;
  std::string file;              ///< as the user gave it
  std::string text;              ///< the file's content, frozen with the run
  Json params = Json::object();  ///< after --set
  /// The numbers among `params` that JSON would write otherwise, as they were written: "3.10".
  std::map<std::string, std::string> written = {};
  std::vector<Image> images;
  std::vector<Step> steps;  ///< in file order
  Trackers track;
  Notifications notify;
};

/// The parameters as programs get them: of `written` the texts.
Json params_as_written(const Workflow& workflow);

/// "epochs=5" for each of `params`, as `--set` takes it. \param written  see Workflow::written
std::vector<std::string> settings_of(const Json& params,
                                     const std::map<std::string, std::string>& written);

/// The names of all steps, in file order.
std::vector<std::string> step_names(const Workflow& workflow);

}  // namespace dlflow
