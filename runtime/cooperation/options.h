#pragma once

#include <cstdint>
#include <optional>

namespace dlflow::runtime {

/// The way in which the ranks of a training cooperate (docs/user/taxonomy.md), and its parameters;
/// those of other ways are ignored.
struct CooperationOptions {
  enum class Kind { Synchronous, LocalSgd, Elastic, ParameterServer, Gossip, Pairwise };

  Kind kind = Kind::Synchronous;

  /// Local SGD: steps between averagings. Elastic, gossip, pairwise: steps between exchanges.
  uint64_t every = 1;

  /// Local SGD: the number of first epochs in which ranks average after every step.
  uint64_t synchronous_epochs = 0;

  /// Elastic: the fraction of its distance to the ranks' mean that the center moves in an exchange.
  double rate = 0.9;

  /// Parameter server: the number of servers, which are the last ranks.
  int servers = 1;

  /// Parameter server: how many steps a worker may be ahead of the slowest; unlimited if empty.
  std::optional<uint64_t> staleness = std::nullopt;

  bool operator==(const CooperationOptions&) const = default;
};

/// The number of `ranks` that compute gradients. Throws Error{InvalidInput} if it would be 0.
int num_workers(const CooperationOptions& options, int ranks);

}  // namespace dlflow::runtime
