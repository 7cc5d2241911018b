#pragma once

#include <filesystem>
#include <optional>

#include "engine/model/workflow.h"

/// RUN/notify.json: `notify:` as it was when the run was made. A node checks for it after each job,
/// and reads nothing more of a run without it.
namespace dlflow {

/// Writes the file unless `notify` is empty.
void write_notifications(const std::filesystem::path& run_directory, const Notifications& notify);

/// Returns nothing if there is no file. Throws Error{Corrupt}.
std::optional<Notifications> read_notifications(const std::filesystem::path& run_directory);

}  // namespace dlflow
