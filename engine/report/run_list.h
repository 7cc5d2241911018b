#pragma once

#include <map>
#include <span>
#include <string>

#include "engine/report/style.h"
#include "engine/store/store.h"

/// All runs: `dlflow status`.
namespace dlflow {

/// A line per run: RUN ON STATE STEPS AGE NOW. `now_texts` has the last column of a run ("train
/// epoch 7/30, loss 0.21"); it is empty for runs without an entry.
std::string run_list(std::span<const RunSummary> runs,
                     const std::map<std::string, std::string>& now_texts, Time now,
                     const Style& style);

/// The run's present activity or the cause of its end, in a few words.
std::string now_text(const RunStatus& status, const Style& style);

}  // namespace dlflow
