#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "engine/report/headline.h"
#include "engine/report/style.h"
#include "engine/store/run_status.h"

/// A job in words, as shown beside its state.
namespace dlflow {

/// The time that a job ran or has been running; "-" before it started. While it runs under a limit,
/// "2:10/20:00": the time of the present pass and its limit, since a requeued job gets its full
/// limit again.
std::string elapsed(const JobRow& job, Time now);

/// "accuracy 0.907, loss 0.271" or "29.5 MiB staged, 4 files": the most important numbers.
std::string describe_metrics(const Json& metrics);

/// One or two lines for a running job: "epoch 2/3 ━━━╺━━ 64%  loss 0.312" and "3,980 img/s, 0:17
/// left". The bar is shorter or missing if the style is narrow.
std::vector<std::string> describe_progress(const Json& progress, const Style& style);

/// "resnet-0b77 failed in 2:10: train[lr=0.5] failed" or "… succeeded in 1:02: accuracy 0.907".
std::string describe_end(const RunStatus& status, const NumbersByStep& numbers = {});

}  // namespace dlflow
