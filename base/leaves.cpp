#include "base/leaves.h"

#include <algorithm>
#include <bit>
#include <string>

namespace dlflow {
namespace {

constexpr size_t kMostLeaves = 8, kSmallestLeaf = 32;

size_t leaves_of_batch(const LeafSettings& settings) {
  return settings.leaves > 0 ? settings.leaves : default_leaves(settings.batch, settings.ranks);
}

/// Ranks have consecutive leaves, and leaves consecutive samples; with fewer samples than leaves,
/// some leaves are empty.
size_t count_idle(const LeafSettings& settings, size_t ranks) {
  const size_t leaves = num_leaves(settings), workers = std::min(leaves, ranks);
  size_t idle = ranks - workers;
  if (settings.batch >= leaves_of_batch(settings)) return idle;
  const auto first_sample = [&](size_t worker) {
    return settings.batch * settings.accumulate * (leaves * worker / workers) / leaves;
  };
  for (size_t worker = 0; worker < workers; ++worker) {
    if (first_sample(worker) == first_sample(worker + 1)) ++idle;
  }
  return idle;
}

std::string counted(size_t number, const std::string& one, const std::string& more) {
  return std::to_string(number) + " " + (number == 1 ? one : more);
}

/// The limiting resource: leaves or samples.
std::string size_of_step(const LeafSettings& settings, size_t ranks) {
  const size_t leaves = num_leaves(settings);
  std::string all_leaves = counted(leaves, "leaf", "leaves");
  if (leaves < ranks) return all_leaves;
  return counted(settings.batch * settings.accumulate, "sample", "samples") + " in " + all_leaves;
}

std::string enough_work(const LeafSettings& settings, size_t ranks) {
  const size_t enough = (ranks + settings.accumulate - 1) / settings.accumulate;  // per batch
  const std::string leaves = "'precision: {leaves: " + std::to_string(enough) + "}'";
  const bool has_samples = settings.batch >= enough;
  if (settings.leaves > 0 || enough > kMostLeaves) {
    return has_samples ? leaves : leaves + " and 'batch: " + std::to_string(enough) + "' or more";
  }
  const std::string batch =
      "'batch: " + std::to_string(std::bit_ceil(enough) * kSmallestLeaf) + "'";
  return has_samples ? leaves + ", or with " + batch : batch;
}

}  // namespace

size_t default_leaves(size_t batch, size_t ranks) {
  const size_t shares = std::max<size_t>(ranks, 1);
  const size_t most_of_share = std::max<size_t>(kMostLeaves / shares, 1);
  const size_t of_share = std::bit_floor(batch / shares / kSmallestLeaf);
  return shares * std::clamp<size_t>(of_share, 1, std::bit_floor(most_of_share));
}

size_t num_leaves(const LeafSettings& settings) {
  return leaves_of_batch(settings) * settings.accumulate;
}

std::optional<std::string> idle_ranks(const LeafSettings& settings, size_t ranks) {
  const size_t idle = count_idle(settings, ranks);
  if (idle == 0) return std::nullopt;
  return std::to_string(idle) + " of " + std::to_string(ranks) + " ranks " +
         (idle == 1 ? "has" : "have") + " nothing to do: a step has " +
         size_of_step(settings, ranks) + ". All have work with " + enough_work(settings, ranks);
}

}  // namespace dlflow
