#pragma once

#include <cstddef>
#include <optional>
#include <string>

/// Into how many parts, called leaves, a training in exact mode divides a step, whatever the number
/// of ranks (docs/contributor/runtime.md).
namespace dlflow {

/// Of a step; more than anybody computes, so that a slip of the keyboard is told.
constexpr size_t kMostLeavesOfStep = size_t{1} << 20;

struct LeafSettings {
  size_t batch = 128;     ///< samples that are computed at a time, over all ranks
  size_t leaves = 0;      ///< of a batch; 0: as many as default_leaves() says
  size_t accumulate = 1;  ///< batches that make a step
  size_t ranks = 0;  ///< with equal shares of the batch, if the share is what was given; else 0
};

/// Up to 8, but of at least 32 samples, so that no kernel gets slow. Where the share of a rank was
/// given, each of `ranks` has as many leaves as the others, and at least one.
size_t default_leaves(size_t batch, size_t ranks = 0);

/// Of a step.
size_t num_leaves(const LeafSettings& settings);

/// That ranks have nothing to do, since a step has fewer leaves or samples, and what would give
/// them work; or nothing.
std::optional<std::string> idle_ranks(const LeafSettings& settings, size_t ranks);

}  // namespace dlflow
