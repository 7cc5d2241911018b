#include "runtime/nn/step_order.h"

namespace dlflow::runtime {

StepOrder::StepOrder(int num_operations, const std::vector<Segment>& recomputed)
    : num_operations_(num_operations),
      segment_of_(size_t(num_operations), -1),
      again_(size_t(num_operations), -1),
      backward_(size_t(num_operations), -1) {
  int place = loss() + 1;
  size_t left = recomputed.size();
  for (int i = num_operations; i-- > 0;) {
    if (left > 0 && i + 1 == recomputed[left - 1].end) {
      const Segment& segment = recomputed[--left];
      for (int j = segment.begin; j < segment.end; ++j) {
        segment_of_[size_t(j)] = int(left);
        again_[size_t(j)] = place++;
      }
    }
    backward_[size_t(i)] = place++;
  }
  end_ = place;
}

}  // namespace dlflow::runtime
