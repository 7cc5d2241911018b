#pragma once

#include <filesystem>
#include <optional>

#include "engine/model/workflow.h"

/// RUN/notify.json: `notify:` as it was when the run was made. A node looks for it after each job,
/// and reads nothing more of a run that tells nobody.
namespace dlflow {

/// Writes it, unless nobody is to be told.
void write_notifications(const std::filesystem::path& run_directory, const Notifications& notify);

/// Nothing if nobody is to be told. Throws Error{Corrupt}.
std::optional<Notifications> read_notifications(const std::filesystem::path& run_directory);

}  // namespace dlflow
