#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "engine/plan/plan.h"
#include "engine/run/notify/news.h"

namespace dlflow {

/// Whether all jobs of a run have ended, by what is on record in its folder, and how: a job behind
/// one that failed has ended, too. Nothing if one is left, or people cancelled the run.
std::optional<News> end_on_record(const Plan& plan);

/// Whether the newest attempt of `job` has begun and not ended, by the record of its supervisor and
/// by that of the engine: then the run goes on, and end_on_record() would give nothing.
bool is_at_work(const std::filesystem::path& run_directory, const std::string& job);

}  // namespace dlflow
