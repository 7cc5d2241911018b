#include "runtime/train/divergence.h"

#include <algorithm>
#include <cmath>
#include <ranges>

#include "base/text.h"
#include "runtime/train/agreement.h"

namespace dlflow::runtime {
namespace {

constexpr const char* kAdvice = "; a lower lr or a longer warm-up may help";

bool is_finite(float x) { return std::isfinite(x); }

/// The name of the last parameter with a number in `buffer` that is not finite; or null.
const std::string* last_not_finite(const WeightLayout& layout, std::span<const float> buffer) {
  for (const Parameter& parameter : layout.parameters() | std::views::reverse) {
    const auto slot = buffer.subspan(parameter.offset, parameter.size);
    if (!std::ranges::all_of(slot, is_finite)) return &parameter.name;
  }
  return nullptr;
}

[[noreturn]] void fail(const std::string& what, uint64_t step) {
  throw Diverged(Errc::InvalidInput,
                 what + " is NaN or infinite at step " + std::to_string(step) + kAdvice);
}

}  // namespace

void fail_loss(Communicator& comm, float loss, float my_share, uint64_t step) {
  std::vector<std::string> ranks;
  const std::vector<float> shares = gather(comm, my_share);
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    if (!std::isfinite(shares[rank])) ranks.push_back(std::to_string(rank));
  }
  throw Diverged(Errc::InvalidInput,
                 "loss is " + std::string(std::isnan(loss) ? "NaN" : "infinite") + " at step " +
                     std::to_string(step) + (ranks.size() == 1 ? " (rank " : " (ranks ") +
                     join(ranks, ", ") + ")" + kAdvice);
}

void fail_update(const WeightLayout& layout, std::span<const float> gradients,
                 std::span<const float> weights, uint64_t step) {
  const std::string* parameter = last_not_finite(layout, gradients);
  if (parameter != nullptr) fail("the gradient of " + *parameter, step);
  parameter = last_not_finite(layout, weights);
  DLFLOW_CHECK(parameter != nullptr);
  fail(*parameter, step);
}

void require_finite(const WeightLayout& layout, std::span<const float> weights, uint64_t step) {
  if (const std::string* parameter = last_not_finite(layout, weights)) fail(*parameter, step);
}

}  // namespace dlflow::runtime
