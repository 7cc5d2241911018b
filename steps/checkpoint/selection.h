#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runtime/checkpoint/checkpoint.h"

/// The selection of one of several checkpoints.
namespace dlflow::steps {

/// The parsed `select:`.
struct Selection {
  enum class By { Latest, Max, Min };
  By by = By::Latest;
  std::string metric;  ///< for Max and Min

  bool operator==(const Selection&) const = default;
};

/// "latest", "max METRIC" or "min METRIC". Throws Error{InvalidInput}.
Selection parse_selection(std::string_view text);

/// The index of the selected one of `checkpoints` (at least one). Ignores checkpoints without the
/// metric or with NaN. Among equals, selects the one with the most steps, then the last one given.
/// Throws Error{NotFound} naming the available metrics if no candidate is left.
size_t select_checkpoint(std::span<const runtime::CheckpointInfo> checkpoints,
                         const Selection& selection);

}  // namespace dlflow::steps
