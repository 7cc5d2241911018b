#include "runtime/train/report_slot.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kOwnFloats = 5;  // the noise meter's floats follow
static_assert(kOwnFloats + NoiseMeter::kReportFloats <= ReportSlot::kFloats);

}  // namespace

void ReportSlot::write(size_t leaf, float loss) {
  const OfRank with_leaf = leaf == 0 ? of_rank_ : OfRank{};
  const std::span<float> slot = reducer_.gradient(leaf, parameter_);
  slot[0] = loss;
  slot[1] = with_leaf.wishes.stops;
  slot[2] = with_leaf.wishes.saves;
  slot[3] = with_leaf.data_wait_s;
  slot[4] = with_leaf.communication_wait_s;
  noise_.write(leaf, slot.subspan<kOwnFloats, NoiseMeter::kReportFloats>());
  reducer_.ready(leaf, parameter_);
}

ReportSlot::Sums ReportSlot::read(std::span<const float> slot) {
  reducer_.wait(parameter_);
  noise_.read(slot.subspan<kOwnFloats, NoiseMeter::kReportFloats>());
  return {{slot[0], slot[1], slot[2]}, slot[3], slot[4]};
}

}  // namespace dlflow::runtime
