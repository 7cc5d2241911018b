#pragma once

#include <chrono>

#include "base/process.h"
#include "engine/batch/batch_system.h"

/// The meaning of how an sbatch, scancel or scontrol ended.
namespace dlflow {

/// Accepted only with an id and exit status 0.
SubmitAnswer sbatch_answer(const Output& output, std::chrono::milliseconds time_limit);

/// Of a scontrol or scancel that was answered.
JobAnswer job_answer(const Output& output);

/// The same command may succeed later: the controller did not answer, or the tool was killed.
bool is_transient(const Output& output);

}  // namespace dlflow
