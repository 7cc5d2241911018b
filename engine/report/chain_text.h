#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/plan/plan.h"
#include "engine/report/style.h"

namespace dlflow {

/// A batch that was accepted.
struct SubmittedBatch {
  uint32_t step = 0;
  std::string id;    ///< of the batch system; of the array, if it is one
  size_t jobs = 1;   ///< of the run
  size_t tasks = 1;  ///< of the batch system; fewer where several jobs share one
  Resources resources;
};

/// "40 elements in 2 tasks": of a step with `pack`.
std::string elements_in_tasks(size_t elements, size_t tasks);

/// "data 811 → train 812 (2 ranks, 20:00) → best 813", wrapped and indented: the steps in the order
/// they were submitted, with arrows where each waits for the one before.
std::string chain_text(const Plan& plan, std::span<const SubmittedBatch> batches,
                       const Style& style);

}  // namespace dlflow
