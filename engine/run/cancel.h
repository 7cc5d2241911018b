#pragma once

#include <chrono>
#include <filesystem>
#include <optional>

#include "engine/plan/run_directory.h"
#include "engine/run/scheduler.h"

namespace dlflow {

/// The run's lock. An engine that has it, or a submission that is under way, is asked by the file
/// RUN/cancel to stop; nothing if it has not done so after `patience`. Who gets the lock removes
/// the file.
std::optional<RunLock> take_over(const std::filesystem::path& run_directory,
                                 std::chrono::milliseconds patience);

/// Ends a run from any shell: running jobs are asked to save a checkpoint and to end, nothing new
/// starts. If an engine is at work on the run, it is told so by the file RUN/cancel, and a second
/// call makes it kill; else this process becomes the run's engine until all have ended, and Ctrl-C
/// kills. A run that has ended stays as it is.
///
/// \return whether all jobs have ended; false if another engine still waits for some after
/// `patience`. Throws as resume_run.
bool cancel_run(const std::filesystem::path& run_directory, const Services& services,
                std::chrono::milliseconds patience = std::chrono::seconds(30));

}  // namespace dlflow
