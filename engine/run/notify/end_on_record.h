#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "engine/plan/plan.h"
#include "engine/run/notify/notify.h"

namespace dlflow {

/// The end of a run, if all its jobs have ended by the records in its folder; a job behind a failed
/// one counts as ended. Nothing if a job is left, or people cancelled the run.
std::optional<News> end_on_record(const Plan& plan);

/// Whether the newest attempt of `job` has begun and not ended, by the records of its supervisor
/// and of the engine: then the run continues, and end_on_record() would return nothing.
bool is_at_work(const std::filesystem::path& run_directory, const JobName& job);

}  // namespace dlflow
