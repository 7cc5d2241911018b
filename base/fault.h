#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string_view>

namespace dlflow {

/// For tests of what a crash leaves: kills this process with -9 if the environment says
/// DLFLOW_CRASH_AT=point:n and this is the n-th call with that point. The file that
/// DLFLOW_CRASH_MARK names, if any, says afterwards that it was. Costs one look at a flag.
void crash_point(std::string_view point);

/// For tests within one process: `act` is called at each point from now on, and may throw what
/// nothing but the test catches, as if this process ended there. Empty: no more.
void on_crash_point(std::function<void(std::string_view point)> act);

/// For tests of a full disk and of a torn write: how many of `bytes`, which are to be written to
/// `path`, reach it. All of them, unless on_write() says otherwise.
size_t bytes_that_fit(const std::filesystem::path& path, size_t bytes);

/// Answers for bytes_that_fit() from now on. What does not fit is refused as by a full disk, after
/// a crash point "torn write". Empty: no more.
void on_write(std::function<size_t(const std::filesystem::path& path, size_t bytes)> answer);

}  // namespace dlflow
