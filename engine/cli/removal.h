#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/cli/session.h"

/// Removing runs, so that nothing breaks that refers to them.
namespace dlflow {

/// The parts of a run to remove: its folder, or (if other runs use results of it) the results in it
/// that nobody uses. Such a run stays known, and so its results are still found and reused.
struct Removal {
  std::string run;
  std::filesystem::path directory;
  std::map<std::filesystem::path, std::set<std::string>> used;  ///< folders of jobs -> runs
  uint64_t freed_bytes = 0;
  uint64_t kept_bytes = 0;
};

/// Throws Error{InvalidInput} with what to type if the run is at work, or if jobs of it are in
/// a queue, or if that cannot be known now.
/// \param gone  a cluster that does not come back: nothing is at work there. Empty: none
void check_idle(Session& session, const std::string& run, const std::string& gone = "");

/// For runs that go together: what they use of each other goes, too, unless a part of them stays,
/// which may have links to it. Sizes are what the disk gets
/// back: what has a name outside (a program that runs share) is not counted.
std::vector<Removal> plan_removals(Session& session, const std::vector<std::string>& runs);

/// Does it. After a kill in between the run is either there or gone; what is left of its folder
/// goes with the next removal beside it.
void remove_run(Session& session, const Removal& removal);

}  // namespace dlflow
