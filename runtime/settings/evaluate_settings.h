#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/json.h"

namespace dlflow::runtime {

/// The settings of an evaluation, as values.
struct EvaluateSettings {
  std::string checkpoint;                ///< folder of a checkpoint
  std::string data;                      ///< folder of the test data
  bool scratch = false;                  ///< each node reads the data from a copy on its own disk
  std::optional<size_t> loader_threads;  ///< as in training
  size_t batch = 256;

  bool operator==(const EvaluateSettings&) const = default;
};
/// Reads the `with:` of an evaluate step (docs/user/format/kinds.md has the keys).
/// Throws SettingError.
EvaluateSettings parse_evaluate_settings(const Json& with);

}  // namespace dlflow::runtime
