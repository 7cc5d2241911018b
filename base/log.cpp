#include "base/log.h"

#define SPDLOG_FMT_EXTERNAL
#include <spdlog/logger.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <optional>

namespace dlflow {
namespace {

constexpr const char* kFormat = "[%Y-%m-%d %H:%M:%S.%e] [%l] %v";
constexpr size_t kMaxBytes = 1 << 20;
constexpr size_t kOldFiles = 1;

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::Debug:
      return spdlog::level::debug;
    case LogLevel::Info:
      return spdlog::level::info;
    case LogLevel::Warning:
      return spdlog::level::warn;
  }
  return spdlog::level::off;
}

/// A rotating file that is opened for its first message.
class LateFile : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit LateFile(std::filesystem::path file) : file_(std::move(file)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (!open_) {
      open_.emplace(file_.string(), kMaxBytes, kOldFiles);
      open_->set_formatter(formatter_->clone());
    }
    open_->log(message);
    open_->flush();
  }
  void flush_() override {}

  std::filesystem::path file_;
  std::optional<spdlog::sinks::rotating_file_sink_st> open_;
};

class Logger : public spdlog::logger {
 public:
  Logger() : spdlog::logger("dlflow") {
    set_level(spdlog::level::off);
    set_error_handler([](const std::string&) {});
  }

  void add(const spdlog::sink_ptr& sink, spdlog::level::level_enum least) {
    sink->set_level(least);
    sink->set_pattern(kFormat);
    sinks().push_back(sink);
    set_level(std::min(level(), least));
  }

  void set_file(spdlog::sink_ptr file) {
    std::erase(sinks(), file_);
    file_ = std::move(file);
    add(file_, spdlog::level::info);
  }

 private:
  spdlog::sink_ptr file_;
};

Logger& logger() {
  static Logger the_logger;
  return the_logger;
}

}  // namespace

void show_log(LogLevel least) {
  logger().add(std::make_shared<spdlog::sinks::stderr_sink_mt>(), level_of(least));
}

void keep_log(const std::filesystem::path& file) {
  logger().set_file(std::make_shared<LateFile>(file));
}

bool logs(LogLevel level) { return logger().should_log(level_of(level)); }

void log(LogLevel level, const std::string& message) { logger().log(level_of(level), message); }

}  // namespace dlflow
