#pragma once

#include <string>

#include "engine/report/report_data.h"

namespace dlflow {

/// A run on one time axis, as Chrome's trace format: for ui.perfetto.dev and chrome://tracing. Each
/// step is a process whose threads are places for jobs that run at the same time; how many jobs
/// wait and run are counters. Of a `train` step with `timeline: N`, and of a PyTorch script with
/// DLFLOW_TIMELINE, each rank is a process more, with its steps, layers and sums where they were in
/// time.
///
/// Reads the timelines of jobs: by their own clocks, which may differ from that of the machine
/// where the engine writes. Of one without its time (an older dlflow's) the pass says when it was.
/// Source: the Trace Event Format document of Chromium's catapult.
std::string chrome_trace(const ReportedRun& run, Time now);

}  // namespace dlflow
