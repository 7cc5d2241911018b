#pragma once

#include <chrono>
#include <filesystem>
#include <optional>

#include "engine/plan/run_directory.h"

/// RUN/cancel: the file by which `dlflow cancel` asks another process, which is at work on the run,
/// to stop.
namespace dlflow {

bool is_cancel_requested(const std::filesystem::path& run_directory);

/// Removes the request. Whether there was one.
bool withdraw_cancel_request(const std::filesystem::path& run_directory);

/// The run's lock. Who has it, an engine or a submission that is under way, is asked to stop;
/// nothing if it has not done so after `patience`. Who gets the lock withdraws the request.
std::optional<RunLock> take_over(const std::filesystem::path& run_directory,
                                 std::chrono::milliseconds patience);

}  // namespace dlflow
