#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "engine/plan/plan.h"
#include "engine/store/store.h"

/// The results in a bundle of a run, for a colleague who wants to reuse them.
///
/// A bundle's checksums say that its bytes are those that somebody packed. That they were computed
/// as the workflow says nobody can know, so these functions are called only for who trusts whoever
/// made the bundle. Even then a result stands for nothing but a job of the bundle's own workflow:
/// its fingerprint is computed here, from the workflow, its files and what its parents left, and
/// has to be the recorded one. Data that a step reads where it lies counts there by what its file
/// system says of it; if its content is that of the run, which the bundle then holds, too, the
/// result gets the fingerprint that it has with this user's copy. The bytes of a result have to
/// have the hashes that were recorded.
///
/// What is taken in becomes a run of this user, of the name that it had. From there later runs
/// reuse it like any other (Store::find), and `rm` removes it.
namespace dlflow {

/// The folders below a job's own that a result is in.
inline constexpr std::array<const char*, 2> kResultTrees = {"outputs", "checkpoints"};

/// Whether a job did something that no bundle holds: a command without outputs, `stage-out`.
bool acts_elsewhere(const Step& step, const Json& outputs);

/// The hash of all that is in `place`, which is called `tree` below its job's folder, but for the
/// entry `without`: names, kinds, contents, and which files may be run. A link that stays in it
/// counts as such, another one as what it leads to. Throws Error.
std::string hash_of_tree(const std::filesystem::path& place, const std::string& tree,
                         const std::string& without = "");

struct PackedResult {
  KnownResult known;                         ///< where it lies in the unpacked bundle
  std::map<std::string, std::string> trees;  ///< "outputs" -> hash_of_tree()
  std::map<std::string, std::string> links;  ///< below the job's folder -> target
  std::vector<std::string> folders;          ///< the empty ones
  Time started{};
  Time ended{};
};

struct PackedResults {
  std::string run;     ///< that computed them
  std::string dlflow;  ///< the version that it ran with
  Time started{};
  Plan plan;  ///< of the bundle's workflow, with the lists that its steps left
  std::map<uint32_t, PackedResult> by_job;
  /// By fingerprint: what steps left that copy sources whose hashes the workflow gives. Wherever
  /// they run they leave the same, so that what needs it is known before they have run.
  std::map<std::string, KnownResult> foreseen;
  std::vector<std::string> refused;  ///< for people, a line for each result that is none here

  /// Adds to `refused`.
  void refuse(uint32_t job, const std::string& why);
};

/// The results in the unpacked bundle `folder` whose fingerprint is the one that their job has
/// here; their bytes are not looked at yet. \param plan  of the bundle's workflow with the bundle's
/// settings, as it would run here. Throws Error{Corrupt} if the record of the run is damaged.
PackedResults read_packed_results(const std::filesystem::path& folder, Plan plan,
                                  FileHashes& hashes);

/// Makes a run of `results` below `runs`, with copies, and adds it to the store; of a result whose
/// bytes are not those that were recorded it has nothing, and `results.refused` a line. Twice is
/// once: a run that was made of the same results is taken as it is. Returns its name in the store;
/// empty if there is nothing to take. \param bundle  its name for people. Throws Error.
std::string take_results(PackedResults& results, const std::filesystem::path& runs,
                         const std::string& bundle, Store& store);

}  // namespace dlflow
