#include "engine/run/cancel_request.h"

#include <thread>

#include "base/file.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

fs::path cancel_file(const fs::path& run_directory) { return run_directory / "cancel"; }

}  // namespace

bool is_cancel_requested(const fs::path& run_directory) {
  std::error_code none;
  return fs::exists(cancel_file(run_directory), none);
}

bool withdraw_cancel_request(const fs::path& run_directory) {
  std::error_code none;
  return fs::remove(cancel_file(run_directory), none);
}

std::optional<RunLock> take_over(const fs::path& run_directory,
                                 std::chrono::milliseconds patience) {
  auto lock = RunLock::try_acquire(run_directory);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  if (!lock) write_file_atomic(cancel_file(run_directory), "");
  while (!lock && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(20ms);
    lock = RunLock::try_acquire(run_directory);
  }
  return lock;
}

}  // namespace dlflow
