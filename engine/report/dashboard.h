#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/report/run_table.h"
#include "engine/report/style.h"

/// One run on a whole terminal, for whoever watches it: `dlflow status RUN --watch`.
namespace dlflow {

/// `values` as a row of bars, at most `width` columns: each column is the mean of its share of the
/// values, from the least (the lowest bar) to the most. Empty without values.
std::string sparkline(std::span<const double> values, size_t width, const Style& style);

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
