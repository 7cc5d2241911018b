#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/plan/fingerprint.h"
#include "engine/plan/job.h"
#include "engine/plan/published.h"
#include "engine/supervisor/launch.h"

/// The results of a program: its metrics, its outputs with their hashes, and whether they meet the
/// step's requirements.
namespace dlflow {

/// The numbers of $DLFLOW_SUMMARY; {} if it wrote none. Throws Error{InvalidInput} if it is not an
/// object. \param warning  gets the first value that is no number, in words.
Json read_metrics(const AttemptFiles& files, std::string* warning = nullptr);

/// A warning if the first line of $DLFLOW_METRICS is not a JSON object; otherwise "".
std::string warning_of_curves(const AttemptFiles& files);

/// The outputs of a program, to be published.
struct Outputs {
  Json values = Json::object();  ///< name -> {"value", "sha256"}, see JobEvent::outputs
  Publication publication;
};

/// Where the outputs are that a command declares: name -> path below $DLFLOW_OUTPUTS, or below the
/// job's folder for what begins with `checkpoints/`.
///
/// A declared path may be a pattern, "version_*/best.ckpt", that one file or folder matches; `*`
/// stops at a slash. What is not below $DLFLOW_OUTPUTS and was left in the working directory is
/// moved there. Links, as inputs are, and what lies behind them stay where they are; of the folder
/// that `checkpoint: {newer: …}` names, outputs are copies. Throws Error{InvalidInput} naming what
/// is missing, and which link is in the way or where a file of that name lies instead; then nothing
/// was moved.
std::map<std::string, std::string> settle_outputs(const JobSpec& spec, const AttemptFiles& files);

/// The declared outputs and those of $DLFLOW_OUTPUTS/outputs.json. A declared path becomes the path
/// that it has once it is published, and so does a value that is the relative path of something
/// there; a path below checkpoints/ becomes the path in the job's folder. Outputs without a hash
/// are hashed: files by content, folders by names and contents, other values by their text. Links
/// may lead to other files of the run and to what the parents published; a link counts with what it
/// leads to. Throws Error{InvalidInput} naming a declared output that is not there, a link that
/// leads elsewhere or nowhere, or something that is neither a file nor a folder.
Outputs collect_outputs(const JobSpec& spec, const AttemptFiles& files);

/// Puts the values of a parent's axes (`matrix`) instead of `from` into `outputs`, where `from`
/// shows which output of a parent was selected. An output of no parent has none.
void name_elements(Json& outputs, const std::vector<ParentResult>& parents);

/// The publication of outputs in the pass's folders; `values` as JobEvent::outputs.
Publication publication_of(const JobSpec& spec, const AttemptFiles& files, const Json& values);

/// Whether every metric that other steps read is there. \param metrics  read_metrics().
bool has_needed_metrics(const JobSpec& spec, const Json& metrics);
/// Throws Error{InvalidInput} if not: "no metric 'accuracy', which step 'best' reads".
void check_needed_metrics(const JobSpec& spec, const Json& metrics, const AttemptFiles& files);

/// Throws Error{InvalidInput}: "accuracy is 0.5, required >= 0.88". \param metrics  read_metrics().
void check_requirements(const JobSpec& spec, const Json& metrics, const AttemptFiles& files);

/// Removes the permission to write from the files of `publication`, records them, if there are any
/// (otherwise the event of the end has `published_nothing`), and points RUN/steps/STEP/outputs at
/// this pass's outputs, by rename. Afterwards outputs and records survive a power cut.
void publish(const JobSpec& spec, const AttemptFiles& files, Publication publication);

}  // namespace dlflow
