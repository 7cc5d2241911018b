#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "runtime/checkpoint/safetensors.h"

/// Checkpoints: folders FOLDER/step-000123 that exist completely or not at all, even if the writer
/// is killed. docs/contributor/checkpoint-format.md describes every file and the order in which
/// they appear.
namespace dlflow::runtime {

/// The description of a checkpoint, readable without its tensors.
struct CheckpointInfo {
  uint64_t step = 0;                            ///< optimizer steps done; names the folder
  uint64_t epoch = 0;                           ///< whole epochs done
  uint64_t samples = 0;                         ///< training samples seen, over all ranks
  std::map<std::string, double> metrics;        ///< infinities are read back as NaN
  std::string model;                            ///< the model's YAML text
  std::optional<uint64_t> best = std::nullopt;  ///< step of the best so far, if one is kept

  bool operator==(const CheckpointInfo&) const = default;
};

/// The content to save. The tensors are borrowed for the call.
struct CheckpointContent {
  CheckpointInfo info;
  std::vector<TensorView> model;      ///< weights and running statistics
  std::vector<TensorView> optimizer;  ///< momenta and the like; may be empty
  Json state;                         ///< anything else: seeds, position in the data

  /// Further, optional files of tensors, by name without `.safetensors`.
  std::map<std::string, std::vector<TensorView>> further = {};
};

/// A loaded checkpoint. The tensors are mapped, not copied.
struct Checkpoint {
  CheckpointInfo info;
  Safetensors model;
  Safetensors optimizer;
  Json state;
  std::map<std::string, Safetensors> further;
};

/// Writes FOLDER/step-NNNNNN and returns its path; once the call returns, it survives a power cut.
/// A kill at any instruction leaves either no such folder or a complete one, and all earlier
/// checkpoints stay complete.
///
/// Then FOLDER/latest points to it, and only the newest `keep` (at least 1) complete checkpoints
/// stay, and those that one of these lists as the best so far. A complete checkpoint of the same
/// step is not overwritten. One process at a time saves to a folder; others may read meanwhile.
/// Throws Error if it cannot be written (a full disk); existing checkpoints stay.
std::filesystem::path save_checkpoint(const std::filesystem::path& folder,
                                      const CheckpointContent& content, size_t keep);

/// Returns the path for the checkpoint of `step`, which may not exist.
std::filesystem::path checkpoint_folder(const std::filesystem::path& folder, uint64_t step);

/// Reads the checkpoint in `step_folder` after verifying every byte of it. Throws Error{NotFound}
/// if there is none, Error{Corrupt} naming the damaged file.
Checkpoint load_checkpoint(const std::filesystem::path& step_folder);

/// Like load_checkpoint, for a verified checkpoint: checks only lengths and headers.
Checkpoint map_checkpoint(const std::filesystem::path& step_folder);

/// The files of a checkpoint, as listed in its manifest.
struct CheckpointFiles {
  std::vector<std::filesystem::path> paths;  ///< including the manifest
  std::string sha256;                        ///< hash of the manifest, which covers all files
};

/// Throws like load_checkpoint.
CheckpointFiles checkpoint_files(const std::filesystem::path& step_folder);

/// Verifies as load_checkpoint: hashes every file, maps none.
CheckpointInfo verify_checkpoint(const std::filesystem::path& step_folder);

/// Reads the manifest alone. Throws like load_checkpoint.
CheckpointInfo read_checkpoint_info(const std::filesystem::path& step_folder);

/// Returns the step-* folders in `folder`, complete or not, in the order of their steps; none if
/// `folder` does not exist.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& folder);

/// The checkpoint to resume from.
struct LatestCheckpoint {
  std::optional<std::filesystem::path> path;  ///< the newest valid one, if any
  std::vector<std::string> rejected;          ///< why newer ones are unusable, newest first
};

/// Returns the newest valid checkpoint. Skips and reports torn and damaged ones.
LatestCheckpoint latest_valid(const std::filesystem::path& folder);

/// Removes a checkpoint. A kill meanwhile leaves either all of it or no step-* folder.
void remove_checkpoint(const std::filesystem::path& step_folder);

}  // namespace dlflow::runtime
