#pragma once

#include <array>
#include <filesystem>
#include <span>
#include <string>

#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// Which files the ranks of each node have open, so that one of them can find out something about
/// them for all. A rank to which the same paths are other files finds it out for itself.
class NodeView {
 public:
  /// Collective over all ranks. `comm` must outlive this. Throws Error if a file is not there.
  NodeView(Communicator& comm, std::span<const std::filesystem::path> files);

  /// Whether this rank finds it out: it is the first of its node, or has other files than that one.
  bool looks() const { return !believes_ || comm_.node_rank() == 0; }

  /// What the rank found whom this one believes: a hash of 64 digits, or nothing. `found` counts
  /// where looks().
  /// Collective over all ranks.
  std::string agree(const std::string& found);

  /// Zeroed memory, `bytes` of it, that this rank has in common with the one that it believes; it
  /// lives as long as the communicator. Collective over the node.
  std::byte* share(size_t bytes);

 private:
  using Hex = std::array<char, 64>;

  /// The values that the ranks of a node exchange.
  struct Told {
    Hex files, found;
  };
  static Hex hex_of(const std::string& text);
  static Hex known_as(std::span<const std::filesystem::path> files);
  Told& told(int node_rank) { return *reinterpret_cast<Told*>(told_[size_t(node_rank)]); }
  int believed() const { return looks() ? comm_.node_rank() : 0; }

  Communicator& comm_;
  std::span<std::byte* const> told_;
  bool believes_ = false;
};

}  // namespace dlflow::runtime
