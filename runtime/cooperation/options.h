#pragma once

#include <cstdint>
#include <optional>

namespace dlflow::runtime {

/// Which way the ranks of a training cooperate (docs/user/taxonomy.md), and its figures; those of
/// other kinds are of no meaning.
struct CooperationOptions {
  enum class Kind { Synchronous, LocalSgd, Elastic, ParameterServer, Gossip, Pairwise };

  Kind kind = Kind::Synchronous;

  /// Local SGD: steps from one averaging to the next. Elastic, gossip, pairwise: steps from one
  /// exchange to the next.
  uint64_t every = 1;

  /// Local SGD: the first epochs, in which ranks average after every step.
  uint64_t synchronous_epochs = 0;

  /// Elastic: the share of the way to the mean of the ranks that the center goes in an exchange.
  double rate = 0.9;

  /// Parameter server: how many of the ranks, the last, are servers.
  int servers = 1;

  /// Parameter server: how many steps a worker may be ahead of the slowest; nothing: any number.
  std::optional<uint64_t> staleness = std::nullopt;

  bool operator==(const CooperationOptions&) const = default;
};

/// Of `ranks`, those that compute gradients. Throws Error{InvalidInput} if none is left.
int num_workers(const CooperationOptions& options, int ranks);

}  // namespace dlflow::runtime
