#pragma once

#include "base/error.h"

/// What `dlflow` tells the shell; documented in the README.
namespace dlflow {

enum ExitStatus : int {
  kDone = 0,
  kStepFailed = 1,
  kBadInput = 2,
  kBackendRefused = 3,
  kInterrupted = 130,
};

/// The exit status for an Error that nothing could be done about.
inline ExitStatus exit_status(const Error& error) {
  return error.retryable() ? kBackendRefused : kBadInput;
}

}  // namespace dlflow
