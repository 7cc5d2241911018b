#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "engine/report/curves.h"

/// The offline files of Weights & Biases, which `wandb sync` sends.
namespace dlflow {

struct WandbRun {
  std::string id;  ///< letters and digits
  std::string project;
  std::string group;  ///< of runs that belong together
  std::string name;
  Time started{};
  std::vector<std::pair<std::string, Json>> config;
  std::vector<std::pair<std::string, Json>> summary;
  int exit_code = 0;
};

/// run-ID.wandb of a run that has ended. Lines that told several numbers are one step of its
/// history.
///
/// The file is a header and a log as LevelDB's: blocks of 32 KiB of records that are whole or in
/// parts, each with a CRC-32 of its type and bytes; a record is a message of wandb_internal.proto.
/// Source: wandb/sdk/internal/datastore.py and wandb/proto/wandb_internal.proto of wandb 0.2x.
std::string wandb_file(const WandbRun& run, const Reported& reported);

}  // namespace dlflow
