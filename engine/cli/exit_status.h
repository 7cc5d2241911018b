#pragma once

#include "base/error.h"

/// The exit statuses of `dlflow`; docs/user/exit-status.md has the table.
namespace dlflow {

constexpr int kDone = 0;
constexpr int kStepFailed = 1;
constexpr int kBadInput = 2;
constexpr int kBackendRefused = 3;
constexpr int kInterrupted = 130;

/// The exit status for an Error that nothing could be done about.
inline int exit_status(const Error& error) {
  return error.retryable() ? kBackendRefused : kBadInput;
}

}  // namespace dlflow
