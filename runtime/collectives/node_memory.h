#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/collectives/sum_order.h"
#include "runtime/collectives/task.h"
#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// Elements [first, first + count) of an all-reduce, and their number among all ranges, from 1 on.
/// Ranks sum a range only if all do so in the same `call` (ChannelSpace).
struct Range {
  size_t first, count;
  uint32_t number;
  uint32_t call = 0;
};

/// The parts of all ranks of a node in shared memory, and flags for each rank's progress with a
/// range.
class NodeMemory {
 public:
  /// The number of ranges with separate flags: nothing may be announced for range n +
  /// kRangesAtATime before this rank is done with n.
  static constexpr uint32_t kRangesAtATime = 256;

  /// Collective over the node. `parts_of_ranks`: each rank's number of parts; 0 counts as 1.
  NodeMemory(Communicator& comm, size_t num_elements, DataType type,
             std::span<const size_t> parts_of_ranks);

  int size() const { return int(values_.size()); }
  int rank() const { return rank_; }

  /// Part `index` of this rank.
  Values part(size_t index) const { return part_of(rank_, index); }

  /// Part 0 of each rank of the node, this rank's first.
  std::span<const Values> values() const { return values_; }

  /// All parts of the node, by rank.
  std::span<const Values> parts() const { return parts_; }

  /// Share `index` of the `shares` shares of `range`, in whole cache lines, so that no two ranks
  /// write to the same line.
  Range share(const Range& range, int index, int shares) const;

  enum class Stage { Started, Reduced, Consumed };

  /// Started: this rank's parts are final. Reduced: its share of the sum lies in all buffers.
  /// Consumed: its share was consumed.
  void announce(Stage stage, const Range& range);

  /// Waits until all ranks of the node have announced the stage; with `shares`, only the ranks
  /// whose share is not empty. Waits for ever for ranks that started another call.
  class Announced final : public Wait {
   public:
    Announced(const NodeMemory& memory, Stage stage, const Range& range, int shares = 0)
        : memory_(memory), stage_(stage), range_(range), shares_(shares) {}
    Progress poll() override;
    int peer() const override { return memory_.world_rank(missing_); }

   private:
    bool is_waited_for(int rank) const {
      return shares_ == 0 || (rank < shares_ && memory_.share(range_, rank, shares_).count > 0);
    }

    const NodeMemory& memory_;
    Stage stage_;
    Range range_;
    int shares_;
    int missing_ = 0;  // all ranks before it have announced
  };
  Announced all_started(const Range& range) const { return {*this, Stage::Started, range}; }
  Announced all_reduced(const Range& range, int shares) const {
    return {*this, Stage::Reduced, range, shares};
  }
  Announced all_consumed(const Range& range) const { return {*this, Stage::Consumed, range}; }

 private:
  struct Flags;
  int world_rank(int node_rank) const { return world_ranks_[size_t(node_rank)]; }
  Values part_of(int rank, size_t index) const {
    return {memory_[size_t(rank)] + index * stride_bytes_, num_elements_, type_};
  }

  int rank_;
  std::vector<int> world_ranks_;
  size_t num_elements_;
  DataType type_;
  size_t stride_bytes_;             // between consecutive parts of a rank
  std::vector<Flags*> flags_;       // by rank
  std::vector<std::byte*> memory_;  // by rank: the beginning of its parts
  std::vector<Values> values_, parts_;
};

}  // namespace dlflow::runtime
