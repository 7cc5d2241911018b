#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file_identity.h"
#include "engine/plan/fingerprint.h"

/// A record of all files that a job published, to prove that they have not changed since.
namespace dlflow {

/// A file, folder or link below a job's folder.
struct PublishedEntry {
  enum class Kind { File, Folder, Link };
  std::string name;  ///< "outputs/data/x.csv", or an absolute path, see Publication::trees
  Kind kind = Kind::File;
  FileIdentity identity = {};  ///< of a file
  std::string sha256 = {};     ///< of a file's content, empty if not computed; a link's target
  bool is_executable = false;
};

/// The trees that hold the outputs of a job, and all entries in them.
struct Publication {
  /// Below the job's folder: "outputs", "checkpoints/step-000123". An absolute path: the target of
  /// a link in these.
  std::vector<std::string> trees;
  std::vector<PublishedEntry> entries;
  std::map<std::string, std::string> outside;  ///< other paths in outputs -> data_identity()
};

/// Whether it holds only an empty folder of outputs.
bool is_empty(const Publication& publication);

/// All entries in `place`, a file or a folder that is called `name` below the job's folder, sorted
/// by name; hashes nothing and follows no links. Throws Error{InvalidInput} naming anything that is
/// neither file, folder nor link.
std::vector<PublishedEntry> list_published(const std::filesystem::path& place,
                                           const std::string& name);

/// Writes the record beside the outputs of pass folder `pass_folder`. Not needed if it is_empty():
/// the final event records that (JobEvent::published_nothing).
void write_publication(const std::filesystem::path& pass_folder, const Publication& publication);

/// Atomically points RUN/steps/STEP/outputs at `outputs`, the folder of a pass below
/// `job_directory`.
void link_outputs(const std::filesystem::path& job_directory, const std::filesystem::path& outputs);

/// Describes a change in the published result of `job_directory` ("outputs/x.csv is gone"), or
/// returns nothing. Reads no file that the kernel reports as unchanged; hashes others if their hash
/// was recorded. \param published_nothing  the result's JobEvent::published_nothing; false: unknown
std::optional<std::string> find_change(const std::filesystem::path& job_directory,
                                       FileHashes& hashes, bool published_nothing = false);

/// The files and folders elsewhere that links in the published result of `job_directory` resolve
/// to. None if there is no record.
std::vector<std::filesystem::path> linked_places(const std::filesystem::path& job_directory);

/// Whether everything that a child of `job_directory` needs still exists: all published outputs,
/// and the checkpoints that an output names (others may have been pruned). Use find_change() to
/// detect changes.
bool has_result(const std::filesystem::path& job_directory);

}  // namespace dlflow
