#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "base/json.h"
#include "engine/store/run_status.h"

/// How far running jobs are: the last line that each wrote to its metrics.jsonl.
namespace dlflow {

/// Job name -> its last metrics line; the keys are in docs/contributor/architecture.md.
using ProgressByJob = std::map<std::string, Json>;

/// The last whole line of `file` as an object; nothing if there is none.
std::optional<Json> last_metrics(const std::filesystem::path& file);

/// The progress of each running job of `status`.
ProgressByJob read_progress(const RunStatus& status);

}  // namespace dlflow
