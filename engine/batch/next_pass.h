#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "engine/batch/allocation.h"
#include "engine/batch/attempt.h"

/// How an unfinished task asks its batch system for another pass.
namespace dlflow {

/// Memory and time of a task that runs again.
struct NextPass {
  uint64_t memory_bytes = 0;      ///< on each node; 0: the same
  std::chrono::minutes limit{0};  ///< 0: the same
};

/// Asks for it until there is an answer. The batch system then ends this process, unless it ends
/// before. Throws Error if it refuses.
void request_next(const NextPass& next, const Allocation& allocation);

/// Records that the attempt has failed, since its next pass was refused with `error`.
void record_refusal(const Attempt& attempt, const Error& error, const Allocation& allocation);

/// The time limit of a task whose program may take `walltime`.
std::chrono::minutes limit_of(const JobSpec& spec, std::chrono::seconds walltime);

/// Another job has the attempt in `work`: requeues this one for the time when that may have ended.
/// Returns this one's exit status.
int come_back(const std::string& work, const Allocation& allocation);

}  // namespace dlflow
