#pragma once

#include <map>
#include <span>
#include <string>

#include "engine/report/style.h"
#include "engine/store/store.h"

/// All runs: `dlflow status`.
namespace dlflow {

/// A line per run: RUN ON STATE STEPS AGE NOW. `now_texts` says for a run what it is doing ("train
/// epoch 7/30, loss 0.21"); runs without an entry show nothing there.
std::string run_list(std::span<const RunSummary> runs,
                     const std::map<std::string, std::string>& now_texts, Time now,
                     const Style& style);

/// What `status` is doing, or what ended it, in a few words.
std::string now_text(const RunStatus& status, const Style& style);

}  // namespace dlflow
