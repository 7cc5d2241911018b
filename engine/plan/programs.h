#pragma once

#include <filesystem>

namespace dlflow {

/// Puts a copy of `program` at `place`, below the folder `runs` of all runs (P6). Runs of one
/// version share it: `place` is a hard link to RUNS/.programs/SHA256/NAME, so that removing one run
/// breaks no other, and a later edit of `program` changes neither. Where there can be no hard link
/// it is a copy of its own. Users who share `runs` have a folder each: RUNS/.programs-UID.
void share_program(const std::filesystem::path& program, const std::filesystem::path& runs,
                   const std::filesystem::path& place);

/// Removes the programs in RUNS/.programs that no run has any more.
void remove_unused_programs(const std::filesystem::path& runs);

}  // namespace dlflow
