#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "engine/report/run_table.h"

/// One run on a whole terminal, for whoever watches it: `dlflow status RUN --watch`.
namespace dlflow {

/// The losses that jobs reported so far, by job.
using Losses = std::map<std::string, std::vector<double>>;

/// The losses of the jobs that the dashboard has room to draw: those that run, else those that
/// ended last. At most `max_jobs`, since their files are read anew each time.
Losses read_losses(const RunStatus& status, size_t max_jobs);

/// At most `rows` lines of `style.width` columns: how far the run is, its jobs, the losses as
/// sparklines, and what ended last. Beside each other where there are 120 columns, else below each
/// other; what has least to say is left out first.
std::vector<std::string> dashboard(const RunView& view, const Losses& losses, Time now, size_t rows,
                                   const Style& style);

}  // namespace dlflow
