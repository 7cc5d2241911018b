#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/values.h"

/// Measures how long sums take, so that ways to sum can be compared: in turn, on the same ranks.
namespace dlflow::runtime {

/// A way to replace `values` by their sum over all ranks, and the seconds that its calls took.
struct Contender {
  std::string name;
  Values values;
  std::function<void()> sum;
  std::vector<double> seconds{};

  double median() const { return quantile(0.5); }

  /// The quantile `part` of the times of all calls.
  double quantile(double part) const;
};

/// Lets all contenders sum in turn until they have taken `seconds_each`, at least 5 and at most 500
/// times; each call follows a barrier, with freshly written values as after a backward pass. The
/// time of a call is that of its slowest rank, on every rank. Collective. Throws Error{Corrupt} if
/// a sum is wrong.
void take_turns(Communicator& comm, std::span<Contender> contenders, double seconds_each);

}  // namespace dlflow::runtime
