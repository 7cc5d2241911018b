#pragma once

#include <bit>

#include "runtime/collectives/link.h"

namespace dlflow::runtime {

/// For algorithms that need a power of two of ranks: of P ranks the first 2E, E being what is too
/// much, go in pairs. The even one hands its values to the odd one and gets the sum back at the
/// end; the others are the core, a power of two, counted anew.
class Folding {
 public:
  explicit Folding(const Link& link)
      : core_size_(int(std::bit_floor(unsigned(link.size())))),
        extra_(link.size() - core_size_),
        rank_(link.rank()) {}

  int core_size() const { return core_size_; }

  bool hands_over() const { return rank_ < 2 * extra_ && rank_ % 2 == 0; }
  bool takes_over() const { return rank_ < 2 * extra_ && rank_ % 2 == 1; }

  /// The other one of a pair.
  int partner() const { return rank_ ^ 1; }

  /// This rank's number in the core, and what the link calls number `core_rank`.
  int core_rank() const { return rank_ < 2 * extra_ ? rank_ / 2 : rank_ - extra_; }
  int name(int core_rank) const {
    return core_rank < extra_ ? 2 * core_rank + 1 : core_rank + extra_;
  }

 private:
  int core_size_, extra_, rank_;
};

}  // namespace dlflow::runtime
