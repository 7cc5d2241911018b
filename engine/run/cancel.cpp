#include "engine/run/cancel.h"

#include <thread>

#include "base/file.h"
#include "engine/plan/run_directory.h"
#include "engine/run/engine.h"
#include "engine/run/restore.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

}  // namespace

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

bool cancel_run(const fs::path& run_directory, const Services& services,
                std::chrono::milliseconds patience) {
  const auto lock = take_over(run_directory, patience);
  if (!lock) return false;
  // Whatever an engine has done by now, or was killed before it did, this one completes.
  const std::string run = services.store.sync_run(run_directory);
  if (services.store.status(run).state == RunState::Running) {
    restored_engine(run_directory, services, {})->stop();
  }
  std::error_code ignored;
  fs::remove(cancel_file(run_directory), ignored);
  return true;
}

}  // namespace dlflow
