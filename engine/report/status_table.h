#pragma once

#include <string>
#include <vector>

#include "engine/report/run_table.h"

/// `dlflow status RUN`: a sentence, a table of the jobs, and what to type next.
namespace dlflow {

/// The selection of jobs and columns to show.
struct StatusChoice {
  std::vector<std::string> names = {};  ///< of steps or jobs, their elements one by one; empty: all
  bool usage = false;  ///< what jobs used, instead of where they are and what they say; one by one
};

/// Whether the choice leaves room for this job.
bool is_chosen(const JobRow& job, const StatusChoice& choice);

/// A step with many elements is one line, and those that failed are listed, unless the choice asks
/// for all.
std::string status_table(const RunView& view, Time now, const Style& style,
                         const StatusChoice& choice = {});

}  // namespace dlflow
