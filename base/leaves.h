#pragma once

#include <cstddef>
#include <optional>
#include <string>

/// The number of parts, called leaves, of a step of training in exact mode, whatever the number of
/// ranks (docs/contributor/runtime.md).
namespace dlflow {

/// Maximum number of leaves of a step; more than anybody needs, so that a typing error is reported.
constexpr size_t kMostLeavesOfStep = size_t{1} << 20;

struct LeafSettings {
  size_t batch = 128;     ///< samples that are computed at a time, over all ranks
  size_t leaves = 0;      ///< of a batch; 0: as many as default_leaves() says
  size_t accumulate = 1;  ///< batches that make a step
  size_t ranks = 0;       ///< with equal shares of the batch, if the share was given; else 0
};

/// Up to 8, of at least 32 samples each, so that no kernel gets slow. If the share of a rank was
/// given, each of `ranks` has the same number of leaves, at least one.
size_t default_leaves(size_t batch, size_t ranks = 0);

/// The number of leaves of a step.
size_t num_leaves(const LeafSettings& settings);

/// A message that some ranks have nothing to do, since a step has fewer leaves or samples, with the
/// settings that would give them work; or nothing.
std::optional<std::string> idle_ranks(const LeafSettings& settings, size_t ranks);

}  // namespace dlflow
