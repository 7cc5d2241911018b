#pragma once

#include <string>

#include "engine/report/report_data.h"

namespace dlflow {

/// A run in OpenMetrics' text format: how many jobs are in each state, since when it runs, and of
/// each job its state, its times and the numbers it reported last, with run, step and job as
/// labels. Source: https://openmetrics.io, version 1.0.0.
std::string openmetrics(const ReportedRun& run, Time now);

}  // namespace dlflow
