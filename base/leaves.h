#pragma once

#include <cstddef>
#include <optional>
#include <string>

/// The number of parts, called leaves, of a training step in exact mode, which does not depend on
/// the number of ranks (docs/contributor/runtime.md).
namespace dlflow {

/// Maximum number of leaves of a step; far above any real need, to catch typing errors.
constexpr size_t kMostLeavesOfStep = size_t{1} << 20;

struct LeafSettings {
  size_t batch = 128;     ///< samples computed at a time, over all ranks
  size_t leaves = 0;      ///< per batch; 0: default_leaves()
  size_t accumulate = 1;  ///< batches per step
  size_t ranks = 0;       ///< number of ranks if a rank's share of the batch was given; else 0
};

/// Up to 8 leaves of at least 32 samples each, so that kernels stay fast. If a rank's share was
/// given, each of `ranks` has the same number of leaves, at least one.
size_t default_leaves(size_t batch, size_t ranks = 0);

/// The number of leaves of a step.
size_t num_leaves(const LeafSettings& settings);

/// A message that some ranks are idle because a step has fewer leaves or samples, with the settings
/// that would give them work; or nothing.
std::optional<std::string> idle_ranks(const LeafSettings& settings, size_t ranks);

}  // namespace dlflow
