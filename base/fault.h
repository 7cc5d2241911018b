#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string_view>

namespace dlflow {

/// A crash point for tests: kills this process with -9 if the environment has
/// DLFLOW_CRASH_AT=point:n and this is the n-th call with that point. The file that
/// DLFLOW_CRASH_MARK names, if any, then records it. Otherwise only checks a flag.
void crash_point(std::string_view point);

/// For tests within one process: from now on, each crash point calls `act`, which may throw an
/// exception that only the test catches, as if this process ended there. Empty: switches this off.
void on_crash_point(std::function<void(std::string_view point)> act);

/// For tests of a full disk and of a torn write: the number of the `bytes` to be written to `path`
/// that reach it. All of them unless on_write() is set.
size_t bytes_that_fit(const std::filesystem::path& path, size_t bytes);

/// Sets the results of bytes_that_fit(). The rest of a write fails as on a full disk, after a crash
/// point "torn write". Empty: switches this off.
void on_write(std::function<size_t(const std::filesystem::path& path, size_t bytes)> answer);

}  // namespace dlflow
