#pragma once

#include <cstddef>
#include <vector>

namespace dlflow::planner {

/// An all-reduce of a step. Times from the start of the step.
struct Bucket {
  double ready_s = 0;  ///< its gradients are there
  double seconds = 0;  ///< it takes alone
  size_t urgency = 0;  ///< the first layer that waits for it: smaller comes first
};

enum class SendOrder { Fifo, Priority };

/// When each bucket is done, where one at a time is under way. Priority: the one that is most
/// urgent of those ready, which interrupts others.
std::vector<double> replay(const std::vector<Bucket>& buckets, SendOrder order);

/// The end of a chain of layers that starts at `start_s`, where layer l begins after the layers
/// before it and not before `free_s[l]`: the next forward pass, whose layers wait for their sums.
double chain_end(double start_s, const std::vector<double>& layer_s,
                 const std::vector<double>& free_s);

}  // namespace dlflow::planner
