#include "base/leaves.h"

#include <algorithm>
#include <bit>

namespace dlflow {
namespace {

constexpr size_t kMostLeaves = 8, kSmallestLeaf = 32;

}  // namespace

size_t default_leaves(size_t batch, size_t ranks) {
  const size_t shares = std::max<size_t>(ranks, 1);
  const size_t most_of_share = std::max<size_t>(kMostLeaves / shares, 1);
  const size_t of_share = std::bit_floor(batch / shares / kSmallestLeaf);
  return shares * std::clamp<size_t>(of_share, 1, std::bit_floor(most_of_share));
}

size_t num_leaves(const LeafSettings& settings) {
  const size_t of_batch =
      settings.leaves > 0 ? settings.leaves : default_leaves(settings.batch, settings.ranks);
  return of_batch * settings.accumulate;
}

std::optional<std::string> idle_ranks(const LeafSettings& settings, size_t ranks) {
  const size_t leaves = num_leaves(settings);
  if (leaves >= ranks) return std::nullopt;
  const size_t idle = ranks - leaves;
  const size_t enough = (ranks + settings.accumulate - 1) / settings.accumulate;  // of a batch
  std::string text = std::to_string(idle) + " of " + std::to_string(ranks) + " ranks " +
                     (idle == 1 ? "has" : "have") + " nothing to do: a step has " +
                     std::to_string(leaves) + (leaves == 1 ? " leaf" : " leaves") +
                     ". All have work with 'precision: {leaves: " + std::to_string(enough) + "}'";
  if (settings.leaves == 0 && enough <= kMostLeaves) {
    text += ", or with 'batch: " + std::to_string(std::bit_ceil(enough) * kSmallestLeaf) + "'";
  }
  return text;
}

}  // namespace dlflow
