#pragma once

#include <string>

/// The output of -v: the commands that were run and the decisions taken, on standard error.
namespace dlflow {

/// After this, log() prints; before it, log() does nothing.
void enable_log();

/// One line, "[08:15:02.345] message".
void log(const std::string& message);

}  // namespace dlflow
