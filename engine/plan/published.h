#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file_identity.h"
#include "engine/plan/fingerprint.h"

/// The published files of a job, one by one: the proof that they have not changed since.
namespace dlflow {

/// A file, folder or link below a job's folder.
struct PublishedEntry {
  enum class Kind { File, Folder, Link };
  std::string name;  ///< "outputs/data/x.csv", or an absolute path, see Publication::trees
  Kind kind = Kind::File;
  FileIdentity identity = {};  ///< of a file
  std::string sha256 = {};     ///< of a file's content; empty: not computed. A link's target.
  bool is_executable = false;
};

/// The trees that hold the outputs of a job, and all that is in them.
struct Publication {
  /// Below the job's folder: "outputs", "checkpoints/step-000123". An absolute path: a file or
  /// folder that a link in these leads to.
  std::vector<std::string> trees;
  std::vector<PublishedEntry> entries;
  std::map<std::string, std::string> outside;  ///< what else outputs name: path -> data_identity()
};

/// Nothing but an empty folder of outputs.
bool is_empty(const Publication& publication);

/// All that is in `place`, a file or a folder that is called `name` below the job's folder, in the
/// order of names; nothing is hashed. Links are not followed. Throws Error{InvalidInput} naming
/// what is neither file, folder nor link.
std::vector<PublishedEntry> list_published(const std::filesystem::path& place,
                                           const std::string& name);

/// The record of it beside the outputs of pass folder `pass_folder`. Of one that is_empty(), the
/// event of the end says so instead (JobEvent::published_nothing).
void write_publication(const std::filesystem::path& pass_folder, const Publication& publication);

/// Points RUN/steps/STEP/outputs at `outputs`, the folder of a pass below `job_directory`, by
/// rename.
void link_outputs(const std::filesystem::path& job_directory, const std::filesystem::path& outputs);

/// What of the published result of `job_directory` is not as it was, in words ("outputs/x.csv is
/// gone"), or nothing. What the kernel says is unchanged is not read; other files are hashed, if
/// their hash was recorded.
std::optional<std::string> find_change(const std::filesystem::path& job_directory,
                                       FileHashes& hashes);

/// The files and folders elsewhere that links in the published result of `job_directory` lead to,
/// all links on the way followed. None if there is no record.
std::vector<std::filesystem::path> linked_places(const std::filesystem::path& job_directory);

/// Whether a step that needs the result of `job_directory` finds what it left there: all that was
/// published as outputs, and the checkpoints that an output names. Others may have been pruned.
/// Whether it has changed is find_change()'s to say.
bool has_result(const std::filesystem::path& job_directory);

}  // namespace dlflow
