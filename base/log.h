#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

/// The only logger (spdlog), for commands and decisions: lines "[2026-11-28 08:15:02.345] [info]
/// message". Results, errors and warnings for people are printed directly instead.
namespace dlflow {

enum class LogLevel : uint8_t {
  Debug,    ///< details: states of jobs, exits of commands
  Info,     ///< commands and decisions
  Warning,  ///< skipped work that does not stop the rest
};

/// From now on, messages of `least` and above go to standard error, too.
void show_log(LogLevel least);

/// From now on, messages of Info and above go to `file`, too, which the first of them creates. At 1
/// MiB the file is renamed to NAME.1.EXTENSION, replacing an older one. Only one process at a time
/// may write it. A message that cannot be written, as on a full disk, is lost without an error.
void keep_log(const std::filesystem::path& file);

/// Whether a message of `level` would be written anywhere.
bool logs(LogLevel level);

void log(LogLevel level, const std::string& message);

}  // namespace dlflow
