#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

/// The one logger (spdlog): commands and decisions, each a line "[2026-11-28 08:15:02.345] [info]
/// message". Results, errors and warnings for people do not go through it; the code that has them
/// prints them.
namespace dlflow {

enum class LogLevel : uint8_t {
  Debug,    ///< details: states of jobs, ends of commands
  Info,     ///< commands and decisions
  Warning,  ///< work that was left out and does not stop the rest
};

/// From now on, messages of `least` and above go to standard error, too.
void show_log(LogLevel least);

/// From now on, messages of Info and above go to `file`, too, which the first of them creates. At 1
/// MiB it becomes NAME.1.EXTENSION, which is replaced. One process at a time writes it. A message
/// that cannot be written, as on a full disk, is lost without an error.
void keep_log(const std::filesystem::path& file);

/// Whether a message of `level` would be written anywhere.
bool logs(LogLevel level);

void log(LogLevel level, const std::string& message);

}  // namespace dlflow
