#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace dlflow {

void enable_log() {
  auto logger = spdlog::stderr_logger_mt("dlflow");
  logger->set_pattern("[%H:%M:%S.%e] %v");
  spdlog::set_default_logger(std::move(logger));
}

void log(const std::string& message) {
  // spdlog's own default logger writes to standard output; ours exists only after enable_log().
  if (const auto logger = spdlog::get("dlflow")) logger->info("{}", message);
}

}  // namespace dlflow
