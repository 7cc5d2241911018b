#include "runtime/train/divergence.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "runtime/train/agreement.h"

namespace dlflow::runtime {
namespace {

constexpr const char* kAdvice = "; a lower lr or a longer warm-up may help";

bool is_finite(float x) { return std::isfinite(x); }

/// Returns the last of the first `count` parameters with NaN or infinity in `buffer`, or -1.
int last_not_finite(const WeightLayout& layout, std::span<const float> buffer, size_t count) {
  for (size_t i = count; i-- > 0;) {
    const Parameter& parameter = layout.parameters()[i];
    const auto slot = buffer.subspan(parameter.offset, parameter.size);
    if (!std::ranges::all_of(slot, is_finite)) return int(i);
  }
  return -1;
}

[[noreturn]] void fail(const std::string& what, uint64_t step) {
  throw Diverged(Errc::InvalidInput,
                 what + " is NaN or infinite at step " + std::to_string(step) + kAdvice);
}

}  // namespace

void fail_loss(Communicator& comm, float loss, const std::optional<Divergence>& mine,
               uint64_t step) {
  struct Fixed {
    uint64_t step = UINT64_MAX;
    std::array<char, 64> layer{};
    bool in_data = false;
  };
  Fixed own;
  if (mine) {
    own.step = mine->step;
    own.in_data = mine->in_data;
    mine->layer.copy(own.layer.data(), own.layer.size() - 1);
  }
  std::vector<std::string> ranks;
  std::string layer;
  bool in_data = false;
  const std::vector<Fixed> all = gather(comm, own);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].step == UINT64_MAX) continue;
    if (ranks.empty() || all[rank].step < step) layer = all[rank].layer.data();
    in_data |= all[rank].in_data;
    step = std::min(step, all[rank].step);
    ranks.push_back(std::to_string(rank));
  }
  std::string where = " at step " + std::to_string(step);
  if (!ranks.empty()) {
    where += (ranks.size() == 1 ? " (rank " : " (ranks ") + join(ranks, ", ") + ")";
  }
  const std::string what = std::isnan(loss) ? "NaN" : "infinite";
  if (in_data) {
    throw Diverged(Errc::InvalidInput,
                   "loss is " + what + where + ": the samples of that step hold NaN or infinite " +
                       "values; remove them from the data; another lr does not help");
  }
  if (!layer.empty()) where += ", first in layer '" + layer + "'";
  throw Diverged(Errc::InvalidInput, "loss is " + what + where + kAdvice);
}

void fail_update(Communicator& comm, const WeightLayout& layout,
                 std::span<const std::span<const float>> gradients, std::span<const float> weights,
                 uint64_t step) {
  const auto name = [&](int parameter) { return layout.parameters()[size_t(parameter)].name; };
  int last = -1;
  for (const auto& of_leaf : gradients)
    last = std::max(last, last_not_finite(layout, of_leaf, layout.num_trainable()));
  last = std::ranges::max(gather(comm, last));
  if (last >= 0) fail("the gradient of " + name(last), step);
  last = last_not_finite(layout, weights, layout.num_trainable());
  DLFLOW_CHECK(last >= 0);
  fail(name(last), step);
}

void require_finite(const WeightLayout& layout, std::span<const float> weights, uint64_t step) {
  const int last = last_not_finite(layout, weights, layout.parameters().size());
  if (last >= 0) fail(layout.parameters()[size_t(last)].name, step);
}

}  // namespace dlflow::runtime
