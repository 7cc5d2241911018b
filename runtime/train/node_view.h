#pragma once

#include <array>
#include <filesystem>
#include <span>
#include <string>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// Detects which ranks of a node have the same files open, so that one of them can examine the
/// files for all. A rank whose paths lead to other files examines them itself.
class NodeView {
 public:
  /// Collective over all ranks. `comm` must outlive this. Throws Error if a file does not exist.
  NodeView(Communicator& comm, std::span<const std::filesystem::path> files);

  /// Whether this rank examines the files: it is the first of its node, or its files differ.
  bool looks() const { return !believes_ || comm_.node_rank() == 0; }

  /// Returns the finding of the rank that examined this rank's files: a hash of 64 digits, or
  /// nothing. `found` is used only where looks(). Collective over all ranks.
  std::string agree(const std::string& found);

  /// Returns `bytes` of zeroed memory that this rank shares with the rank that examines its files.
  /// The memory lives as long as the communicator. Collective over the node.
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

/// Returns the checkpoint in `step_folder` on every rank: its bytes are verified once per node
/// (NodeView) and mapped by all. `is_proven`: this rank has just verified it. Collective. Throws
/// what load_checkpoint throws; Error{InvalidInput} on every rank, naming the ranks whose
/// checkpoint differs from that of rank 0.
Checkpoint load_shared_checkpoint(Communicator& comm, const std::filesystem::path& step_folder,
                                  bool is_proven = false);

}  // namespace dlflow::runtime
