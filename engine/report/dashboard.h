#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/report/run_table.h"
#include "engine/report/style.h"

/// One run on a whole terminal: `dlflow status RUN --watch`.
namespace dlflow {

/// Draws `values` as a row of at most `width` bars. Each bar is the mean of its share of the
/// values; the lowest bar stands for the smallest value and the highest for the largest. Empty
/// without values.
std::string sparkline(std::span<const double> values, size_t width, const Style& style);

/// The losses that jobs reported so far, by job.
using Losses = std::map<std::string, std::vector<double>>;

/// The losses of the jobs that the dashboard has room to draw: running jobs, otherwise those that
/// ended last. At most `max_jobs`, since their files are read again each time.
Losses read_losses(const RunStatus& status, size_t max_jobs);

/// At most `rows` lines of `style.width` columns: the progress of the run, its jobs, their losses
/// as sparklines, and the jobs that ended last. The parts stand side by side in 120 columns or
/// more, otherwise one below the other. The least informative lines are left out first.
std::vector<std::string> dashboard(const RunView& view, const Losses& losses, Time now, size_t rows,
                                   const Style& style);

}  // namespace dlflow
