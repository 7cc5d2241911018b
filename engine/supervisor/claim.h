#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/process.h"

/// attempt-N/claim-K: who runs pass K of an attempt. A symbolic link whose target is the owner:
/// made in one step with its content, so that of two supervisors that are started for the same pass
/// exactly one gets it, on network file systems too. A target of less than 60 bytes needs no block
/// of a disk: it is in the inode. So the owner is five words; before, it was a JSON object, which
/// is still read.
///
/// A supervisor may live longer than the pass, and claim others. Then the end of the pass is on
/// record; a living owner without one is at work on it.
namespace dlflow {

struct Claim {
  int pass = 0;
  ProcessIdentity supervisor;
  uint64_t token =
      0;  ///< number of the pass among those of its supervisor, which request_stop() names
  std::string backend_id;  ///< the SLURM job it runs in; empty: local
};

std::filesystem::path claim_file(const std::filesystem::path& attempt_directory, int pass);

/// Makes this process the owner of the pass; false if it has another owner, or is claimed by this
/// one under another token.
bool claim_pass(const std::filesystem::path& attempt_directory, int pass,
                const std::string& backend_id = "", uint64_t token = 0);

/// The newest claim of an attempt; nothing if no supervisor has started.
std::optional<Claim> newest_claim(const std::filesystem::path& attempt_directory);

/// Notes that the owner of the pass is alive, in the time of the claim. Failures are ignored: a
/// claim that looks old makes nobody wait.
void renew_claim(const std::filesystem::path& attempt_directory, int pass);

/// The time when the claim was made or last renewed; nothing if it is unknown.
std::optional<Time> last_renewal(const std::filesystem::path& attempt_directory, int pass);

}  // namespace dlflow
