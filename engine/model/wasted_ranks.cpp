#include "engine/model/wasted_ranks.h"

#include <optional>

#include "base/leaves.h"
#include "engine/model/step_kinds.h"
#include "engine/model/train_with.h"

namespace dlflow {
namespace {

/// The number under `key` in `object`; `otherwise` without the key, nothing for other types.
std::optional<size_t> count_at(const Json& object, const char* key, size_t otherwise) {
  if (!object.is_object()) return otherwise;
  const auto found = object.find(key);
  if (found == object.end()) return otherwise;
  const bool is_count = found->is_number_integer() && found->get<int64_t>() >= 0;
  return is_count ? std::optional(found->get<size_t>()) : std::nullopt;
}

std::optional<std::string> wasted(const Json& with, size_t ranks) {
  if (!with.is_object() || !trains_exactly(with)) return std::nullopt;
  const LeafSettings usual;
  const auto per_rank = count_at(with, "batch_per_rank", 0);
  const auto batch = count_at(with, "batch", usual.batch);
  const auto leaves = count_at(with.value("precision", Json::object()), "leaves", usual.leaves);
  const auto accumulate = count_at(with, "accumulate", usual.accumulate);
  if (!per_rank || !batch || !leaves || !accumulate) return std::nullopt;
  const LeafSettings settings = *per_rank > 0
                                    ? LeafSettings{*per_rank * ranks, *leaves, *accumulate, ranks}
                                    : LeafSettings{*batch, *leaves, *accumulate};
  return idle_ranks(settings, ranks);
}

}  // namespace

std::set<std::string> wasted_ranks(const Step& step, const Json& params) {
  std::set<std::string> texts;
  const StepKind* kind = find_step_kind(step.uses);
  if (kind == nullptr || !kind->divides_into_leaves || has_open_axis(step.matrix)) return texts;
  Context known{.params = &params};
  for (const Json& element : matrix_elements(step.matrix)) {
    known.matrix = &element;
    const auto ranks = count_at(step.resources.evaluate_known(known), "ranks", 1);
    if (!ranks) continue;
    if (auto text = wasted(step.with.evaluate_known(known), *ranks)) texts.insert(std::move(*text));
  }
  return texts;
}

}  // namespace dlflow
