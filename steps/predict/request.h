#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "runtime/data/dataset.h"
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
  std::vector<std::string> origin;  ///< replaces that of the checkpoint, unless it is empty
};

/// Throws SettingError.
Request parse_request(const Json& with);

}  // namespace dlflow::steps
