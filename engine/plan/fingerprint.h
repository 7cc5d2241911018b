#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "base/json.h"
#include "engine/model/workflow.h"

/// The fingerprint of a job, a SHA-256 of everything that its result depends on. It has two parts:
/// the base is known when a run is planned (fingerprint_base.h), the parents' outputs once the
/// parents have ended.
namespace dlflow {

struct FingerprintKind {
  static constexpr std::string_view kPrefix = "";
  static constexpr std::string_view kForm = "a fingerprint: 64 hexadecimal digits in lower case";
};
using Fingerprint = HashText<FingerprintKind>;

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

/// The hashes of files from content_of(), by their names in the workflow. No absolute path of a
/// frozen copy enters a fingerprint, so that the same workflow has the same fingerprints elsewhere.
using ContentHashes = std::map<std::string, std::string>;

/// The parts of a step that may hold expressions.
std::array<const Template*, 4> templates_of(const Step& step);

/// The metrics of the command `step` that other steps read, each with the first of these steps.
/// (The metrics of step kinds follow from their `with`.)
std::map<std::string, std::string> metrics_read_by_others(const Workflow& workflow,
                                                          const Step& step);

/// The version of what a step's kind computes, or of how commands are run. \param uses  see Step.
int work_version(const std::string& uses);

/// Whether `step` can see what differs in every run, so that its result is valid for one run only.
/// True if it refers to `run.id` or `run.directory`, or if its command, `env:` or one of `texts`
/// (the content of its inputs) mentions $DLFLOW_RUN, $DLFLOW_ATTEMPT or $DLFLOW_PASS, or composes
/// the names of variables. A `run:` step that mentions none of these variables does not get them.
bool sees_run(const Step& step, std::span<const std::string> texts);

/// The parameters in expressions that cannot be evaluated with `known` alone.
Json late_params(const Step& step, const Context& known);

/// The results of a parent, and where its child finds them.
struct ParentResult {
  std::string step;
  Json element = Json::object();    ///< matrix values, {} without a matrix
  std::filesystem::path directory;  ///< the job's folder, which holds its outputs
  bool skipped = false;             ///< it left nothing
  bool failed = false;              ///< it left nothing, but its child runs anyway
  Json outputs = Json::object();    ///< JobEvent::outputs
  Json metrics = Json::object();    ///< JobEvent::metrics
  Fingerprint fingerprint;          ///< JobEvent::fingerprint
};

/// Whether a command may have had effects beyond `outputs`: it left none, or they name something
/// that was not inspected, such as "s3://bucket/data".
bool act_elsewhere(const Json& outputs);

/// Whether a parent may have had effects beyond its outputs: its fingerprint then stands for it.
bool did_something_elsewhere(const ParentResult& parent);

/// The meaning of steps.NAME.matrix: the axis values of a parent. For a parent that selected a
/// result of some element, the axis values of that element.
Json known_axes(const ParentResult& parent);

/// Whether steps.NAME.outputs.KEY is a list over all parents of that step for a job with the matrix
/// values `element`. Otherwise it is the value of the only parent, which has no matrix, or whose
/// matrix values are part of the job's own.
bool is_list(size_t num_parents_of_step, const Json& parent_element, const Json& element);

/// The fingerprint of a job. None if its result cannot be recognized again: a parent declared no
/// outputs, so that its fingerprint has to stand for its effects, but has none; or a parent failed
/// that the job only waits for.
/// \param base     the text of fingerprint_base (JobSpec::fingerprint_base).
/// \param element  the job's matrix values.
/// \param parents  in the order of JobSpec::parents. The fingerprint covers the step and element of
/// each, how it is referred to, and the names (below its folder), values and hashes of its outputs;
/// its metrics, and the axes of a selected result, only if the step refers to them.
Fingerprint fingerprint(std::string_view base, const Json& element,
                        std::span<const ParentResult> parents);

/// The parameters that a `run:` step can see as DLFLOW_PARAM_*: those whose variable occurs in its
/// command, in `env:` or in one of `texts` (the content of its inputs). All of them if
/// "DLFLOW_PARAM_" occurs without a known name after it, since the step may compose names. A step
/// that `uses` a kind sees none: it gets values through `with` only.
Json visible_params(const Step& step, const Json& params, std::span<const std::string> texts);

}  // namespace dlflow
