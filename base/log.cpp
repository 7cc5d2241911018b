#include "base/log.h"

#include <fmt/core.h>
#include <time.h>

#include <atomic>
#include <cstdio>

namespace dlflow {
namespace {

std::atomic<bool> is_enabled = false;

}  // namespace

void enable_log() { is_enabled = true; }

void log(const std::string& message) {
  if (!is_enabled) return;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm local{};
  ::localtime_r(&now.tv_sec, &local);
  // In one piece, so that lines of several threads do not mix.
  const std::string line =
      fmt::format("[{:02}:{:02}:{:02}.{:03}] {}\n", local.tm_hour, local.tm_min, local.tm_sec,
                  now.tv_nsec / 1'000'000, message);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace dlflow
