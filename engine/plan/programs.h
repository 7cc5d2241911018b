#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace dlflow {

/// What `dlflow data pack` calls for byte pairs.
constexpr const char* kTokenizeProgram = "dlflow-tokenize";

/// Puts a copy of `program` at `place`, below the folder `runs` of all runs (P6). Runs of one
/// version share it: `place` is a hard link to RUNS/.programs/SHA256/NAME, so that removing one run
/// breaks no other, and a later edit of `program` changes neither. Where there can be no hard link
/// it is a copy of its own. Users who share `runs` have a folder each: RUNS/.programs-UID.
void share_program(const std::filesystem::path& program, const std::filesystem::path& runs,
                   const std::filesystem::path& place);

/// The program `name` of the dlflow in `folder`: beside it, or where `cmake --install` puts what
/// only dlflow calls. Nothing if it is in neither place.
std::optional<std::filesystem::path> find_companion(const std::filesystem::path& folder,
                                                    const std::string& name);

/// Removes the programs in RUNS/.programs that no run has any more.
void remove_unused_programs(const std::filesystem::path& runs);

}  // namespace dlflow
