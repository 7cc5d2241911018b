#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "engine/model/workflow.h"

/// The fingerprint of a job, a SHA-256 of all that its result depends on. Two parts: the base is
/// known when a run is planned (fingerprint_base.h), the parents' outputs once the parents have
/// ended.
namespace dlflow {

/// SHA-256 of files. Implementations: Store, which remembers them; FreshFileHashes.
class FileHashes {
 public:
  virtual ~FileHashes() = default;

  /// 64 hexadecimal digits of the content of `file`. Throws Error.
  virtual std::string sha256(const std::filesystem::path& file) = 0;
};

/// Reads the file each time.
class FreshFileHashes : public FileHashes {
 public:
  std::string sha256(const std::filesystem::path& file) override;
};

/// The hashes of files from content_of(), by the names that the workflow gives them. No absolute
/// path of a frozen copy enters a fingerprint, so that the same workflow elsewhere is the same
/// work.
using ContentHashes = std::map<std::string, std::string>;

/// Where expressions may stand in a step.
std::array<const Template*, 4> templates_of(const Step& step);

/// The metrics of the command `step` that other steps read, each with the first that does. The
/// metrics of other step kinds follow from their `with`, and whoever reads them is told.
std::map<std::string, std::string> metrics_read_by_others(const Workflow& workflow,
                                                          const Step& step);

/// The version of what a step's kind computes, or of how commands are run. \param uses  see Step.
int work_version(const std::string& uses);

/// Whether `step` can see what differs in every run: it says `run.id` or `run.directory`, or its
/// command, `env:` or one of `texts` (the content of its inputs) mentions $DLFLOW_RUN,
/// $DLFLOW_ATTEMPT or $DLFLOW_PASS, or composes the names of variables. Its result is then that of
/// one run. A `run:` step that mentions none of these variables does not get them.
bool sees_run(const Step& step, std::span<const std::string> texts);

/// The parameters in expressions that `known` does not suffice for.
Json late_params(const Step& step, const Context& known);

/// The results of a parent, and where its child finds them.
struct ParentResult {
  std::string step;
  Json element = Json::object();    ///< matrix values, {} without a matrix
  std::filesystem::path directory;  ///< job folder, which its outputs lie below
  bool skipped = false;             ///< then it left nothing
  bool failed = false;              ///< likewise, and its child runs all the same
  Json outputs = Json::object();    ///< JobEvent::outputs
  Json metrics = Json::object();    ///< JobEvent::metrics
  std::string fingerprint;          ///< JobEvent::fingerprint
};

/// Whether `outputs` do not say all that a command did: it left none, or they name what nobody has
/// looked at, as "s3://bucket/data".
bool act_elsewhere(const Json& outputs);

/// Whether the outputs of a parent do not say all that it did: then its fingerprint stands for it.
bool did_something_elsewhere(const ParentResult& parent);

/// What steps.NAME.matrix stands for: the values of the axes of a parent, and of one that selected
/// a result of some element those of that element.
Json known_axes(const ParentResult& parent);

/// What steps.NAME.outputs.KEY is to a job with the matrix values `element`: a list over all
/// parents of that step, or the one value of the only parent, which has no matrix, or whose values
/// are a part of the job's own.
bool is_list(size_t num_parents_of_step, const Json& parent_element, const Json& element);

/// The fingerprint of a job; empty if its result cannot be known again: a parent declared no
/// outputs, so that its own fingerprint has to stand for what it did, and has none; or one failed
/// that the job only waits for.
/// \param base     the text of fingerprint_base (JobSpec::fingerprint_base).
/// \param element  the job's matrix values.
/// \param parents  in the order of JobSpec::parents; each counts with its step, its element, how it
/// is referred to, and names (below its folder), values and hashes of its outputs; of metrics, and
/// of the axes of what it selected, only those that the step refers to.
std::string fingerprint(std::string_view base, const Json& element,
                        std::span<const ParentResult> parents);

/// The parameters that a `run:` step can see as DLFLOW_PARAM_*: those whose variable occurs in its
/// command, in `env:` or in one of `texts` (the content of its inputs); all of them if
/// "DLFLOW_PARAM_" occurs with no known name behind it, since a name may then be composed. A step
/// that `uses` a kind sees none: it gets values through `with` only.
Json visible_params(const Step& step, const Json& params, std::span<const std::string> texts);

}  // namespace dlflow
