#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "engine/plan/job.h"
#include "engine/supervisor/launch.h"

/// The state that a program has saved, and whether it differs from before.
namespace dlflow {

/// A signature of the checkpoints: names, sizes and times of change.
std::string checkpoint_signature(const JobSpec& spec);

/// A file that a program saved.
struct SavedFile {
  std::string
      match;  ///< the path that the pattern matches: the file itself, or the folder that it is in
  int64_t changed = 0;  ///< nanoseconds since 1970
  uint64_t size = 0;
  uint64_t inode = 0;

  bool operator==(const SavedFile&) const = default;
};

/// By their relative names.
using SavedFiles = std::map<std::string, SavedFile>;

/// The files with content below $DLFLOW_CHECKPOINTS that match `pattern`, themselves or by a folder
/// above them. `*` does not match a slash.
SavedFiles saved_files(const JobSpec& spec, const std::string& pattern);

/// The path that `pattern` matches: the file, or the folder above it; nothing if it matches
/// neither.
std::optional<std::filesystem::path> match_of(const std::filesystem::path& file,
                                              const std::string& pattern);

/// Returns the path, as the pattern matched it, of the file written last among those in `now` that
/// differ from `before`. Nothing if none differs.
std::optional<std::string> newer_file(const SavedFiles& before, const SavedFiles& now);

/// A hash of the contents of the files that `pattern` names, or of all checkpoints if it is empty,
/// without their names and times: a program that saves what it began with has made no progress.
/// Empty if there are none. Of more than 256 MiB in all, blocks over the whole of each file are
/// read.
std::string saved_content(const JobSpec& spec, const std::string& pattern);

/// `step` and `epoch` of the last report in $DLFLOW_METRICS, from a byte on; empty if there is
/// none.
std::string reported_step(const AttemptFiles& files, uint64_t from);

}  // namespace dlflow
