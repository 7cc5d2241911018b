#pragma once

#include <string>
#include <vector>

#include "engine/report/run_table.h"

/// `dlflow status RUN`: a sentence, a table of the jobs, and what to type next.
namespace dlflow {

/// The selection of jobs and columns to show.
struct StatusChoice {
  std::vector<std::string> names = {};  ///< steps or jobs, listed element by element; empty: all
  bool usage = false;  ///< show resource usage per job instead of place and details
};

/// Whether the choice includes this job.
bool is_chosen(const JobRow& job, const StatusChoice& choice);

/// A step with many elements takes one line, followed by its failed elements, unless the choice
/// names it.
std::string status_table(const RunView& view, Time now, const Style& style,
                         const StatusChoice& choice = {});

}  // namespace dlflow
