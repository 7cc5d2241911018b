#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/report/curves.h"
#include "engine/report/spans.h"
#include "engine/report/style.h"
#include "engine/store/run_status.h"

/// One run as a table, live while it runs.
namespace dlflow {

/// The data of a run to show.
struct RunView {
  RunStatus status;
  ProgressByJob progress;
  std::map<std::string, std::vector<std::string>> needs;  ///< step -> steps it waits for
  std::map<std::string, std::vector<JobSpan>> spans;      ///< only for jobs that ran more than once
};

/// The lines of the live table: one or two per job, or per step with many elements, at most
/// `max_lines`. The least informative rows are left out first and counted.
std::vector<std::string> live_table(const RunView& view, Time now, size_t max_lines,
                                    const Style& style);

}  // namespace dlflow
