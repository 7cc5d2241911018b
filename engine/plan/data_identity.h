#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/local_files.h"
#include "engine/plan/fingerprint.h"

/// The identity of a step's files, which changes with their state. It covers single files, and data
/// that the step reads in place because it is too large to copy into the run.
namespace dlflow {

/// A file or folder with everything that a program can see of it by name.
struct DataPlace {
  std::vector<LocalFile> files;     ///< sorted by name; empty: nothing is there
  std::vector<std::string> others;  ///< empty "folder/", dangling "link -> nowhere"; sorted
};

/// The files at `place`: a path, or a file:// URL of a file, a folder (with or without a '/' at its
/// end) or a pattern. For a folder's path, leaves out entries that is_of_a_tool(). Throws Error or
/// filesystem_error if it cannot be listed.
DataPlace data_at(const std::string& place);

/// Distinguishes states of that data without reading it: names, sizes, times and inodes. Empty only
/// if nothing is there. If it cannot be listed, each call returns a different text, so that nothing
/// that depends on it is reused.
std::string data_identity(const std::string& place);

/// Like data_identity(), but any later change of these files is sure to change it. For files
/// written a moment ago it waits for the next tick of the file system's clock, for two seconds at
/// most.
std::string settled_identity(const std::string& place);

/// Changes when the data of `place` is exchanged for other data and put back: covers the folders
/// that hold it, and the links that lead to it. Another entry in one of these folders changes it,
/// too, so use it only to compare two moments, and in no fingerprint.
std::string way_identity(const std::string& place);

/// All places on this machine in `value` and its parts: absolute paths and file:// URLs.
std::vector<std::string> places_in(const Json& value);

/// Whether the owner of `file`, or of its target, may run it. Results depend on no other mode bit.
/// False if there is no such file.
bool is_executable(const std::filesystem::path& file);

/// Everything that a program can see of `file` besides its name: the SHA-256 of its content,
/// followed by " executable" if it may be run. Throws Error.
std::string content_of(const std::filesystem::path& file, FileHashes& hashes);

}  // namespace dlflow
