#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

/// The one logger (spdlog): the commands that were run and the decisions taken, each a line
/// "[2026-11-28 08:15:02.345] [info] message". Results, errors and warnings for people are printed
/// by who has them, not by it.
namespace dlflow {

enum class LogLevel : uint8_t {
  Debug,    ///< each step on the way: states of jobs, how commands ended
  Info,     ///< commands and decisions
  Warning,  ///< what was not done, and does not stop the work
};

/// From now on, messages of `least` and above go to standard error, too.
void show_log(LogLevel least);

/// From now on, messages of Info and above go to `file`, too, which the first of them creates. At 1
/// MiB it becomes NAME.1.EXTENSION, whose old content goes. One process at a time writes it. No
/// message is worth an error: on a full disk it is lost.
void keep_log(const std::filesystem::path& file);

/// Whether anybody would get a message of `level`.
bool logs(LogLevel level);

void log(LogLevel level, const std::string& message);

}  // namespace dlflow
