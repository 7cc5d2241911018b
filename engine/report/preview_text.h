#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/plan.h"
#include "engine/report/style.h"

/// The submissions of a run in a batch system, as `run --dry-run` shows them.
namespace dlflow {

/// A submission that would be made.
struct PreviewedBatch {
  uint32_t step = 0;
  std::vector<uint32_t> jobs;   ///< numbers in the plan
  std::vector<uint32_t> tasks;  ///< of the array; empty: a plain job
  Resources resources;
  int nodes = 0;                    ///< 0: the batch system decides
  std::chrono::minutes limit{0};    ///< of its time, as the batch system is told; 0: not said
  std::vector<uint32_t> waits_for;  ///< places in the list
  std::string script;
};

/// A table with a line for each submission.
std::string preview_text(const Plan& plan, const std::vector<PreviewedBatch>& batches,
                         const Style& style);

/// Each script below a line that says what it is of.
std::string preview_scripts(const Plan& plan, const std::vector<PreviewedBatch>& batches);

/// The key `batches` of `run --dry-run --json`.
Json to_json(const Plan& plan, const std::vector<PreviewedBatch>& batches);

}  // namespace dlflow
