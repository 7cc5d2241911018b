#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/report/run_table.h"

/// Words for jobs that the live table and `dlflow status` share.
namespace dlflow {

/// Whether the job has not begun.
bool waits(const JobRow& job);

/// Whether the job ended without success.
bool went_wrong(const JobRow& job);

/// Whether the job was cancelled before it began.
bool never_began(const JobRow& job);

/// The first job that went wrong and was not merely blocked by another, a cancelled one only if
/// no other did; null if there is none.
const JobRow* first_wrong(const RunStatus& status);

/// The lines beside a job's state, the most important first. \param above  the job in the previous
/// row, whose cause is not repeated; may be null
std::vector<std::string> details(const JobRow& job, const RunView& view, const Style& style,
                                 const JobRow* above = nullptr);

/// A step with more elements than this is one line with counts.
inline constexpr size_t kListedElements = 12;

/// Groups the jobs by step. `jobs` must be in plan order.
std::vector<std::span<const JobRow>> by_step(const std::vector<JobRow>& jobs);

/// The counts of a step with too many elements to list.
struct StepCounts {
  explicit StepCounts(std::span<const JobRow> jobs);

  size_t all = 0;
  size_t done = 0;
  size_t running = 0;
  size_t wrong = 0;  ///< without blocked and cancelled jobs
  size_t cancelled = 0;
  size_t blocked = 0;  ///< by a failure elsewhere

  /// The state that represents the whole step.
  JobState look() const;
  /// "12/250 done, 2 running, 1 failed"
  std::string text() const;
};

}  // namespace dlflow
