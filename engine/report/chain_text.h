#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/plan/plan.h"
#include "engine/report/style.h"

namespace dlflow {

/// A batch that was accepted.
struct SubmittedBatch {
  uint32_t step = 0;
  std::string id;    ///< from the batch system; for an array, the id of the array
  size_t jobs = 1;   ///< jobs of the run
  size_t tasks = 1;  ///< tasks of the batch system; fewer if several jobs share one
  Resources resources;
};

/// "data 811 → train 812 (2 ranks, 20:00) → best 813", wrapped and indented: the steps in the order
/// they were submitted, with arrows where each waits for the one before.
std::string chain_text(const Plan& plan, std::span<const SubmittedBatch> batches,
                       const Style& style);

/// A submission of a dry run.
struct PreviewedBatch {
  uint32_t step = 0;
  std::vector<uint32_t> jobs;   ///< numbers in the plan
  std::vector<uint32_t> tasks;  ///< of the array; empty for a plain job
  Resources resources;
  int nodes = 0;                    ///< 0: the batch system decides
  std::chrono::minutes limit{0};    ///< the time limit given to the batch system; 0: none
  std::vector<uint32_t> waits_for;  ///< places in the list
  std::string script;
};

/// A table with a line for each submission.
std::string preview_text(const Plan& plan, const std::vector<PreviewedBatch>& batches);

/// Each script below a line with its name.
std::string preview_scripts(const Plan& plan, const std::vector<PreviewedBatch>& batches);

/// The key `batches` of `run --dry-run --json`.
Json to_json(const Plan& plan, const std::vector<PreviewedBatch>& batches);

}  // namespace dlflow
