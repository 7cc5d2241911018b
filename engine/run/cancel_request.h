#pragma once

#include <chrono>
#include <filesystem>
#include <optional>

#include "engine/plan/run_directory.h"

/// RUN/cancel: the file by which `dlflow cancel` asks another process that works on the run to
/// stop.
namespace dlflow {

bool is_cancel_requested(const std::filesystem::path& run_directory);

/// Removes the request. Returns whether there was one.
bool withdraw_cancel_request(const std::filesystem::path& run_directory);

/// Acquires the run's lock. Its holder, an engine or a submission at work, is asked to stop;
/// returns nothing if it has not done so after `patience`. The new holder must withdraw the
/// request.
std::optional<RunLock> take_over(const std::filesystem::path& run_directory,
                                 std::chrono::milliseconds patience);

}  // namespace dlflow
