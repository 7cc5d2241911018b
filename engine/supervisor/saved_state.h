#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "engine/plan/job.h"
#include "engine/supervisor/launch.h"

/// The state that a program has saved, and whether it is other than before.
namespace dlflow {

/// What tells one state of the checkpoints from another: names, sizes and times of change.
std::string checkpoint_signature(const JobSpec& spec);

/// A file that a program saved.
struct SavedFile {
  std::string match;    ///< what the pattern names: the file itself, or the folder that it is in
  int64_t changed = 0;  ///< nanoseconds since 1970
  uint64_t size = 0;
  uint64_t inode = 0;

  bool operator==(const SavedFile&) const = default;
};

/// By their relative names.
using SavedFiles = std::map<std::string, SavedFile>;

/// The files with content below $DLFLOW_CHECKPOINTS that match `pattern`, themselves or a folder
/// above them. `*` stops at a slash.
SavedFiles saved_files(const JobSpec& spec, const std::string& pattern);

/// What `pattern` names: the file, or the folder above it; nothing if it names neither.
std::optional<std::filesystem::path> match_of(const std::filesystem::path& file,
                                              const std::string& pattern);

/// What the pattern names of the files of `now` that are not as they were in `before`: of that
/// which was written last. Nothing if there is none.
std::optional<std::string> newer_file(const SavedFiles& before, const SavedFiles& now);

/// The contents of the files that `pattern` names, or of all checkpoints if it is empty, whatever
/// their names and times are: a program that saves what it began with has made no progress. Empty
/// if there are none. Of more than 256 MiB in all, blocks over the whole of each file are read.
std::string saved_content(const JobSpec& spec, const std::string& pattern);

/// `step` and `epoch` of the last report in $DLFLOW_METRICS, from a byte on; empty if there is
/// none.
std::string reported_step(const AttemptFiles& files, uint64_t from);

}  // namespace dlflow
