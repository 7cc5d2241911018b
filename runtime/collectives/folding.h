#pragma once

#include <bit>

#include "runtime/collectives/link.h"

namespace dlflow::runtime {

/// Reduces P ranks to a power of two, for algorithms that need one. With E ranks too many, the
/// first 2E ranks form pairs: the even one hands its values to the odd one and gets the sum back at
/// the end. The remaining ranks, the core, are renumbered from 0.
class Folding {
 public:
  explicit Folding(const Link& link)
      : core_size_(int(std::bit_floor(unsigned(link.size())))),
        extra_(link.size() - core_size_),
        rank_(link.rank()) {}

  int core_size() const { return core_size_; }

  bool hands_over() const { return rank_ < 2 * extra_ && rank_ % 2 == 0; }
  bool takes_over() const { return rank_ < 2 * extra_ && rank_ % 2 == 1; }

  /// The other rank of the pair.
  int partner() const { return rank_ ^ 1; }

  /// This rank's number in the core, and the link's number of `core_rank`.
  int core_rank() const { return rank_ < 2 * extra_ ? rank_ / 2 : rank_ - extra_; }
  int name(int core_rank) const {
    return core_rank < extra_ ? 2 * core_rank + 1 : core_rank + extra_;
  }

 private:
  int core_size_, extra_, rank_;
};

}  // namespace dlflow::runtime
