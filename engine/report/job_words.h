#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/report/run_table.h"

/// Words for jobs that the live table and `dlflow status` have in common.
namespace dlflow {

/// It has not begun.
bool waits(const JobRow& job);

/// It ended, and not as it should.
bool went_wrong(const JobRow& job);

/// The first job that did, and was not only blocked by another; null if there is none.
const JobRow* first_wrong(const RunStatus& status);

/// What is said beside a job's state, the first line of it first.
std::vector<std::string> details(const JobRow& job, const RunView& view, const Style& style);

/// Elements of one step that are shown one by one; more are counted.
inline constexpr size_t kListedElements = 12;

/// The jobs of each step, which stand together in plan order.
std::vector<std::span<const JobRow>> by_step(const std::vector<JobRow>& jobs);

/// A step with too many elements to list.
struct StepCounts {
  explicit StepCounts(std::span<const JobRow> jobs);

  size_t all = 0;
  size_t done = 0;
  size_t running = 0;
  size_t wrong = 0;    ///< without those that are blocked
  size_t blocked = 0;  ///< by what went wrong elsewhere

  /// What the step as a whole looks like.
  JobState look() const;
  /// "12/250 done, 2 running, 1 failed"
  std::string text() const;
};

}  // namespace dlflow
