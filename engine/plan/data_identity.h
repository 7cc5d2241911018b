#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/local_files.h"
#include "engine/plan/fingerprint.h"

/// The identity of a step's files, which changes with their state: of a single file, and of data
/// that the step reads where it lies, since it is too large to copy into the run.
namespace dlflow {

/// A file or folder with all that a program can see of it by name.
struct DataPlace {
  std::vector<LocalFile> files;     ///< in the order of names; none: there is nothing
  std::vector<std::string> others;  ///< "folder/" that is empty, "link -> nowhere"; likewise
};

/// What `place` leads to: a file, a folder, or a file:// URL of a file, a folder (with or without
/// a '/' at its end) or a pattern. A folder's path leaves out what is_of_a_tool(). Throws Error or
/// filesystem_error if it cannot be listed.
DataPlace data_at(const std::string& place);

/// What tells one state of that data from another without reading it: names, sizes, times and
/// inodes. Empty only if nothing is there; of what cannot be listed another one each time, so that
/// nothing that depends on it is reused.
std::string data_identity(const std::string& place);

/// The same once each later change of these files changes it, too: of what was written a moment ago
/// it waits for the next tick of the file system's clock, for two seconds at most.
std::string settled_identity(const std::string& place);

/// What changes when the data of `place` was exchanged for other data and put back: the folders
/// that hold it, and the links that lead to it. Another entry in one of these folders changes it,
/// too, so that it counts between two moments only, and in no fingerprint.
std::string way_identity(const std::string& place);

/// The places on this machine that `value`, or a part of it, is: absolute paths and file:// URLs.
std::vector<std::string> places_in(const Json& value);

/// Whether the owner of `file`, or of what it leads to, may run it: all of a file's mode that a
/// result can depend on. False if it is not there.
bool is_executable(const std::filesystem::path& file);

/// What a program can see of `file` besides its name: the SHA-256 of its content, with
/// " executable" behind it if it may be run. Throws Error.
std::string content_of(const std::filesystem::path& file, FileHashes& hashes);

}  // namespace dlflow
