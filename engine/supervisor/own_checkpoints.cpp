#include "engine/supervisor/own_checkpoints.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "engine/model/step_kinds.h"
#include "engine/supervisor/kept_checkpoints.h"
#include "engine/supervisor/launch.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// The fingerprint of the same job whatever it is given to run on. Empty as the fingerprint is: all
/// that a job does whose work cannot be known counts as one work.
std::string work_of(const JobSpec& spec, std::span<const ParentResult> parents) {
  Json base = Json::parse(spec.fingerprint_base);
  base.erase("resources");
  return fingerprint(base.dump(), spec.element, parents);
}

fs::path place_aside(const AttemptFiles& files) {
  return files.attempt / ("checkpoints-" + std::to_string(files.pass));
}

void put_aside(const fs::path& folder, const AttemptFiles& files) {
  forget_kept_checkpoints(folder.parent_path());
  const fs::path aside = place_aside(files);
  std::error_code problem;
  fs::rename(folder, aside, problem);
  if (problem) {
    throw Error(Errc::InvalidInput, "cannot move " + folder.string() + ", checkpoints of other " +
                                        "work, to " + aside.string() + ": " + problem.message());
  }
}

fs::path note_of(const JobSpec& spec) { return spec.job_directory / "checkpoints.of"; }

bool holds_files(const fs::path& folder) {
  if (!fs::exists(folder)) return false;
  const fs::recursive_directory_iterator entries(folder);
  return std::any_of(begin(entries), end(entries),
                     [](const fs::directory_entry& entry) { return !entry.is_directory(); });
}

}  // namespace

std::optional<std::string> keep_own_checkpoints(const JobSpec& spec, const AttemptFiles& files,
                                                const std::string& fingerprint,
                                                std::span<const ParentResult> parents) {
  if (!can_save(spec.uses, spec.checkpoint)) return std::nullopt;
  const fs::path folder = checkpoints_directory(spec);
  const std::string work = work_of(spec, parents);
  const std::string all = work + " " + fingerprint + "\n";
  const auto noted = read_file_if_exists(note_of(spec));
  if (noted == all) return std::nullopt;
  if (noted && holds_files(folder)) {
    if (noted->starts_with(all)) {
      return "it goes on from a checkpoint of a pass in doubt: " + noted->substr(all.size());
    }
    if (!work.empty() && noted->starts_with(work + " ")) {
      return "it goes on from checkpoints that were made with other resources";
    }
    put_aside(folder, files);
  }
  write_file_atomic(note_of(spec), all, Durability::Synced);
  return std::nullopt;
}

bool begins_anew(const AttemptFiles& files) { return fs::exists(place_aside(files)); }

void doubt_checkpoints(const JobSpec& spec, const std::string& reason) {
  if (!can_save(spec.uses, spec.checkpoint)) return;
  const auto noted = read_file_if_exists(note_of(spec));
  if (!noted || !noted->ends_with('\n')) return;  // nobody knows what they are of, or in doubt
  write_file_atomic(note_of(spec), *noted + reason, Durability::Synced);
}

}  // namespace dlflow
