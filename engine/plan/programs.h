#pragma once

#include <filesystem>
#include <string>

#include "engine/plan/fingerprint.h"

namespace dlflow {

/// Puts a copy of `program` at `place`, below the folder `runs` of all runs (P6). Runs of one
/// version share it: `place` is a hard link to RUNS/.programs/SHA256/NAME, so that removing one run
/// breaks no other, and a later edit of `program` changes neither. If hard links are impossible,
/// `place` is a separate copy. Users who share `runs` have a folder each: RUNS/.programs-UID.
void share_program(const std::filesystem::path& program, const std::filesystem::path& runs,
                   const std::filesystem::path& place);

/// Does the same for PREFIX/bin/PROGRAM in FOLDER/bin. Its MPI plug-ins and the libraries of a
/// release (cmake/install.cmake) go to FOLDER/lib/dlflow, where the program looks first.
void share_with_libraries(const std::filesystem::path& program, const std::filesystem::path& runs,
                          const std::filesystem::path& folder);

/// Removes the programs in RUNS/.programs that no run links to.
void remove_unused_programs(const std::filesystem::path& runs);

/// Finds `name` in the PATH `path`: returns its absolute path and the SHA-256 of its content, or
/// "not found". Throws Error.
std::string program_identity(const std::string& name, const std::string& path, FileHashes& hashes);

/// Explains that the program `name` is unknown because of lines that run before it.
std::string unknown_program(const std::string& name);

}  // namespace dlflow
