#pragma once

#include <chrono>
#include <filesystem>

#include "base/clock.h"
#include "engine/store/store.h"

namespace dlflow {

/// Ends a run from another process. Running jobs are asked to save a checkpoint and to end; a
/// second call kills them. An engine that is at work on the run is told (by the file RUN/cancel)
/// and does it; else the supervisors are signalled from here and the result is recorded.
///
/// Waits up to `patience` for the jobs to end; whether they did. A run that has ended stays as it
/// is (true). Throws Error{Unavailable} if a job runs on another host and no engine watches it.
bool cancel_run(Store& store, const std::filesystem::path& run_directory, const Clock& clock,
                std::chrono::milliseconds patience = std::chrono::seconds(30));

}  // namespace dlflow
