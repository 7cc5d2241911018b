#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "runtime/data/dataset.h"
#include "steps/predict/new_samples.h"
#include "steps/predict/prediction_file.h"

namespace dlflow::steps {

/// The `with:` of a `predict` step.
struct Request {
  std::string checkpoint, data;
  runtime::Split split = runtime::Split::Test;
  PredictionFormat format = PredictionFormat::Csv;
  std::optional<size_t> loader_threads;
  size_t batch = 256;
  size_t shard = 0, shards = 1;
  Origin origin;  ///< replaces what the checkpoint records
};

/// Throws SettingError.
Request parse_request(const Json& with);

}  // namespace dlflow::steps
