#include "runtime/collectives/sum_order.h"

#include <algorithm>

#include "base/error.h"

namespace dlflow::runtime {
namespace {

/// Consecutive leaves that form a subtree; their number is a power of two.
struct Subtree {
  size_t first, count;
};

bool are_siblings(const Subtree& left, const Subtree& right) {
  return left.count == right.count && left.first % (2 * left.count) == 0;
}

class Stack {
 public:
  /// Returns the number of additions that follow.
  uint8_t push(Subtree subtree) {
    subtrees_.push_back(subtree);
    highest_ = std::max(highest_, subtrees_.size());
    uint8_t additions = 0;
    while (subtrees_.size() > 1 && are_siblings(subtrees_.end()[-2], subtrees_.back())) {
      subtrees_.pop_back();
      subtrees_.back().count *= 2;
      ++additions;
    }
    return additions;
  }

  const std::vector<Subtree>& subtrees() const { return subtrees_; }
  size_t highest() const { return highest_; }

 private:
  std::vector<Subtree> subtrees_;
  size_t highest_ = 0;
};

struct Leaves {
  size_t first, end;
};

Leaves leaves_of(size_t num_leaves, int rank, int num_ranks) {
  const size_t workers = std::min(num_leaves, size_t(num_ranks));
  const size_t worker = std::min(size_t(rank), workers);
  const size_t next = std::min(size_t(rank) + 1, workers);
  return {num_leaves * worker / workers, num_leaves * next / workers};
}

}  // namespace

SumOrder sum_in_rank_order(int num_ranks) {
  SumOrder order;
  order.num_parts.assign(size_t(num_ranks), 1);
  order.additions.assign(size_t(num_ranks), 1);
  order.additions[0] = 0;
  return order;
}

LeafShare leaf_share(size_t num_leaves, int rank, int num_ranks) {
  const Leaves leaves = leaves_of(num_leaves, rank, num_ranks);
  LeafShare share;
  share.first = leaves.first;
  share.count = leaves.end - leaves.first;
  Stack stack;
  for (size_t leaf = leaves.first; leaf < leaves.end; ++leaf) {
    share.additions.push_back(stack.push({leaf, 1}));
  }
  share.num_parts = stack.subtrees().size();
  share.most_parts = stack.highest();
  return share;
}

SumOrder sum_in_leaf_order(size_t num_leaves, int num_ranks) {
  SumOrder order;
  Stack all;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const Leaves leaves = leaves_of(num_leaves, rank, num_ranks);
    Stack own;
    for (size_t leaf = leaves.first; leaf < leaves.end; ++leaf) own.push({leaf, 1});
    order.num_parts.push_back(own.subtrees().size());
    for (const Subtree& part : own.subtrees()) order.additions.push_back(all.push(part));
  }
  DLFLOW_CHECK(!order.additions.empty());
  // A subtree without a sibling rises until it has one.
  order.additions.back() += uint8_t(all.subtrees().size() - 1);
  return order;
}

LeafShare leaves_of_rank(size_t leaves_per_rank, int rank) {
  LeafShare share = leaf_share(leaves_per_rank, 0, 1);
  share.first = leaves_per_rank * size_t(rank);
  share.additions.back() += uint8_t(share.num_parts - 1);
  share.num_parts = 1;
  return share;
}

LeafShare leaves_as_parts(size_t num_leaves, int rank, int num_ranks) {
  LeafShare share = leaf_share(num_leaves, rank, num_ranks);
  share.additions.assign(share.count, 0);
  share.num_parts = share.most_parts = share.count;
  return share;
}

SumOrder sum_of_leaves(size_t num_leaves, int num_ranks) {
  SumOrder order = sum_in_leaf_order(num_leaves, int(num_leaves));
  order.num_parts.clear();
  for (int rank = 0; rank < num_ranks; ++rank) {
    order.num_parts.push_back(leaf_share(num_leaves, rank, num_ranks).count);
  }
  return order;
}

}  // namespace dlflow::runtime
