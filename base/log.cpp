#include "base/log.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/file.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kMaxBytes = 1 << 20;
constexpr int kNothing = int(LogLevel::Warning) + 1;

std::string line_of(LogLevel level, const std::string& message) {
  constexpr std::array kNames = {"debug", "info", "warning"};
  timespec now{};
  tm local{};
  std::array<char, 32> seconds{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  ::localtime_r(&now.tv_sec, &local);
  std::strftime(seconds.data(), seconds.size(), "%Y-%m-%d %H:%M:%S", &local);
  return fmt::format("[{}.{:03}] [{}] {}", seconds.data(), now.tv_nsec / 1'000'000,
                     kNames[size_t(level)], message);
}

struct Logger {
  std::mutex mutex;  // of the file
  fs::path path;
  std::optional<AppendFile> file;  // opened for the first message
  std::atomic<int> least_shown = kNothing, least_kept = kNothing;

  void keep(const std::string& line) {
    std::error_code absent;
    const uintmax_t bytes = fs::file_size(path, absent);
    if (!absent && bytes + line.size() >= kMaxBytes) {
      fs::rename(path,
                 path.parent_path() / (path.stem().string() + ".1" + path.extension().string()));
      file.reset();
    }
    if (!file) file.emplace(path);
    file->append(line);
  }
};

Logger& logger() {
  static Logger the_logger;
  return the_logger;
}

}  // namespace

void show_log(LogLevel least) { logger().least_shown = int(least); }

void keep_log(const fs::path& file) {
  const std::lock_guard lock(logger().mutex);
  logger().path = file;
  logger().file.reset();
  logger().least_kept = int(LogLevel::Info);
}

bool logs(LogLevel level) {
  return int(level) >= std::min<int>(logger().least_shown, logger().least_kept);
}

void log(LogLevel level, const std::string& message) {
  if (!logs(level)) return;
  const std::string line = line_of(level, message);
  if (int(level) >= logger().least_shown) std::fputs((line + "\n").c_str(), stderr);
  if (int(level) < logger().least_kept) return;
  const std::lock_guard lock(logger().mutex);
  try {
    logger().keep(line);
  } catch (const std::exception&) {  // a lost message is no error
  }
}

}  // namespace dlflow
