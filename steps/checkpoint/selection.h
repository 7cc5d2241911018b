#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runtime/checkpoint/checkpoint.h"

/// Which of several checkpoints is the one that is wanted.
namespace dlflow::steps {

/// `select:` as values.
struct Selection {
  enum class By { Latest, Max, Min };
  By by = By::Latest;
  std::string metric;  ///< for Max and Min

  bool operator==(const Selection&) const = default;
};

/// "latest", "max METRIC" or "min METRIC". Throws Error{InvalidInput}.
Selection parse_selection(std::string_view text);

/// The index of the selected one of `checkpoints` (at least one). What has no such metric, or not a
/// number, is not considered; of equals the one with the most steps is selected, then the last
/// given. Throws Error{NotFound} naming the metrics there are if none can be considered.
size_t select_checkpoint(std::span<const runtime::CheckpointInfo> checkpoints,
                         const Selection& selection);

}  // namespace dlflow::steps
