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

/// Checkpoints: folders FOLDER/step-000123 that are there completely or not at all, whatever kills
/// the writer. docs/contributor/checkpoint-format.md describes every file and the order in which
/// they appear.
namespace dlflow::runtime {

/// The description of a checkpoint, known without reading its tensors.
struct CheckpointInfo {
  uint64_t step = 0;                            ///< optimizer steps done; names the folder
  uint64_t epoch = 0;                           ///< whole epochs done
  uint64_t samples = 0;                         ///< training samples seen, over all ranks
  std::map<std::string, double> metrics;        ///< what is not a finite number comes back as NaN
  std::string model;                            ///< the model's YAML text
  std::optional<uint64_t> best = std::nullopt;  ///< step of the best so far, if one is kept

  bool operator==(const CheckpointInfo&) const = default;
};

/// The content to save. The tensors are borrowed for the call.
struct CheckpointContent {
  CheckpointInfo info;
  std::vector<TensorView> model;      ///< weights and running statistics
  std::vector<TensorView> optimizer;  ///< momenta and the like; may be empty
  Json state;                         ///< the rest: seeds, position in the data

  /// Further files of tensors, by name without `.safetensors`; each as it may be needed.
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

/// Writes FOLDER/step-NNNNNN and returns its path; it survives a power cut once the call returns.
/// A kill at any instruction leaves either no such folder or a whole one, and every checkpoint that
/// was there before is still there and whole.
///
/// Then FOLDER/latest points to it, and of the whole checkpoints only the newest `keep` (at least
/// 1) stay, and those that one of these calls the best so far. A whole checkpoint of the same step
/// stays as it is: a step is saved once. One process at a time saves to a folder; anybody may read
/// meanwhile. Throws Error if it cannot be written (a full disk); what was there stays.
std::filesystem::path save_checkpoint(const std::filesystem::path& folder,
                                      const CheckpointContent& content, size_t keep);

/// Where the checkpoint of `step` is or would be.
std::filesystem::path checkpoint_folder(const std::filesystem::path& folder, uint64_t step);

/// Reads the checkpoint in `step_folder` after verifying every byte of it. Throws Error{NotFound}
/// if there is none, Error{Corrupt} naming the file that is not what was written.
Checkpoint load_checkpoint(const std::filesystem::path& step_folder);

/// As load_checkpoint, where every byte was verified before: lengths and headers alone are.
Checkpoint map_checkpoint(const std::filesystem::path& step_folder);

/// The files of a checkpoint, as listed in its manifest.
struct CheckpointFiles {
  std::vector<std::filesystem::path> paths;  ///< all of them
  std::string sha256;                        ///< of the manifest, and so of all
};

/// Throws as load_checkpoint.
CheckpointFiles checkpoint_files(const std::filesystem::path& step_folder);

/// As load_checkpoint, of the manifest only: hashes every file, maps none.
CheckpointInfo verify_checkpoint(const std::filesystem::path& step_folder);

/// The manifest without looking at the files. Throws as load_checkpoint.
CheckpointInfo read_checkpoint_info(const std::filesystem::path& step_folder);

/// The step-* folders below `folder`, whole or not, in the order of their steps; none if there is
/// no such folder.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& folder);

/// The checkpoint to go on from.
struct LatestCheckpoint {
  std::optional<std::filesystem::path> path;  ///< the newest whole one, if any
  std::vector<std::string> rejected;          ///< why newer ones cannot be used, newest first
};

/// The newest checkpoint that verifies. What is torn or damaged is passed over and reported.
LatestCheckpoint latest_valid(const std::filesystem::path& folder);

/// Removes a checkpoint, so that a kill meanwhile leaves the whole or nothing that looks like one.
void remove_checkpoint(const std::filesystem::path& step_folder);

}  // namespace dlflow::runtime
