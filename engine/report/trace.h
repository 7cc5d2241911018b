#pragma once

#include <string>

#include "engine/store/run_status.h"

namespace dlflow {

/// Returns a run on one time axis in Chrome's trace format, for ui.perfetto.dev and
/// chrome://tracing. Each step is a process; its threads are rows for jobs that run at the same
/// time. The numbers of waiting and running jobs are counters. With `timeline: N`, or
/// DLFLOW_TIMELINE in a PyTorch script, each rank is another process, with its steps, layers and
/// buckets.
///
/// Reads timeline*.json of jobs. Their clocks may differ from that of the engine's machine. A
/// timeline without its time, from an older dlflow, gets the time of its pass.
/// Source: the Trace Event Format document of Chromium's catapult.
std::string chrome_trace(const ReportedRun& run, Time now);

}  // namespace dlflow
