#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "engine/model/workflow.h"

/// What keeps a result valid, as one SHA-256. Two parts: the base is known when a run is planned,
/// the parents' outputs once the parents have ended.
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

/// Content of files by the name that the workflow gives them. No absolute path of a frozen copy
/// enters a fingerprint, so that the same workflow elsewhere is the same work.
using ContentHashes = std::map<std::string, std::string>;

/// The part of a fingerprint that is known at plan time: an object with step kind and version,
/// command, `with`, environment, names of secrets, condition, the values in expressions that wait
/// for parents, those that reach its environment, image, files, what `require`, `checkpoint` and
/// `outputs` ask for, the metrics of parents that it refers to. Not in it: the step's name,
/// resources, retries, profile, run directory. Absent parts are left out. The text of it (dump())
/// is what fingerprint() takes. \param element  values of the matrix axes, {} without a matrix.
/// \param visible  the parameters that reach its environment, see visible_params().
/// \param files    what it reads: declared inputs, models, local sources.
Json fingerprint_base(const Workflow& workflow, const Step& step, const Json& element,
                      const Json& visible, const ContentHashes& files);

/// Whether `step` says `run.id` or `run.directory`: its result is that of one run.
bool mentions_run(const Step& step);

/// The parameters in expressions that `known` does not suffice for.
Json late_params(const Step& step, const Context& known);

/// What a parent left.
struct ParentResult {
  std::string step;
  Json outputs = Json::object();  ///< JobEvent::outputs
  Json metrics = Json::object();  ///< JobEvent::metrics
};

/// The fingerprint of a job. `base` is the text of fingerprint_base (JobSpec::fingerprint_base);
/// `parents` are in the order of JobSpec::parents. Of outputs only the hashes count, not where they
/// lie; of metrics only those that the step refers to.
std::string fingerprint(std::string_view base, std::span<const ParentResult> parents);

/// The parameters that a `run:` step can see as DLFLOW_PARAM_*: those whose variable occurs in its
/// command, in `env:` or in one of `texts` (the content of its inputs); all of them if
/// "DLFLOW_PARAM_" occurs with no known name behind it, since a name may then be composed. A step
/// that `uses` a kind sees none: it gets values through `with` only.
Json visible_params(const Step& step, const Json& params, std::span<const std::string> texts);

}  // namespace dlflow
