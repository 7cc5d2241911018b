#pragma once

#include <filesystem>
#include <string>

#include "engine/plan/fingerprint.h"

namespace dlflow {

/// Puts a copy of `program` at `place`, below the folder `runs` of all runs (P6). Runs of one
/// version share it: `place` is a hard link to RUNS/.programs/SHA256/NAME, so that removing one run
/// breaks no other, and a later edit of `program` changes neither. Where there can be no hard link
/// it is a copy of its own. Users who share `runs` have a folder each: RUNS/.programs-UID.
void share_program(const std::filesystem::path& program, const std::filesystem::path& runs,
                   const std::filesystem::path& place);

/// The same of PREFIX/bin/PROGRAM in FOLDER/bin, of its plug-ins for MPI and of the libraries that
/// a release brings for it (cmake/install.cmake), in FOLDER/lib/dlflow, where it looks for them
/// first.
void share_with_libraries(const std::filesystem::path& program, const std::filesystem::path& runs,
                          const std::filesystem::path& folder);

/// Removes the programs in RUNS/.programs that no run has any more.
void remove_unused_programs(const std::filesystem::path& runs);

/// The program that `name` means where PATH is `path`: its own path and the SHA-256 of its content,
/// or "not found". Throws Error.
std::string program_identity(const std::string& name, const std::string& path, FileHashes& hashes);

/// Why nobody knows which program `name` will be, where lines run before it.
std::string unknown_program(const std::string& name);

}  // namespace dlflow
