#include "steps/checkpoint/selection.h"

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/not_finite.h"
#include "base/text.h"

namespace dlflow::steps {
namespace {

using runtime::CheckpointInfo;

/// The value to maximise; nothing if the checkpoint is not a candidate.
std::optional<double> score(const CheckpointInfo& checkpoint, const Selection& selection) {
  if (selection.by == Selection::By::Latest) return 0;  // the number of steps decides
  const auto metric = checkpoint.metrics.find(selection.metric);
  if (metric == checkpoint.metrics.end() || !can_be_best(metric->second)) return std::nullopt;
  return selection.by == Selection::By::Max ? metric->second : -metric->second;
}

[[noreturn]] void throw_no_metric(std::span<const CheckpointInfo> checkpoints,
                                  const std::string& metric) {
  std::set<std::string> present;
  for (const CheckpointInfo& checkpoint : checkpoints) {
    for (const auto& [name, value] : checkpoint.metrics) present.insert(name);
  }
  if (present.contains(metric)) {
    throw Error(Errc::NotFound, "the metric '" + metric + "' is not a number in any checkpoint");
  }
  const std::vector<std::string> names(present.begin(), present.end());
  throw Error(Errc::NotFound,
              "no checkpoint has the metric '" + metric + "'; there " +
                  (names.empty() ? "are none at all" : "are: " + join(names, ", ")) +
                  did_you_mean(metric, names));
}

}  // namespace

Selection parse_selection(std::string_view text) {
  if (text == "latest") return {};
  const size_t space = text.find(' ');
  const std::string_view word = text.substr(0, space);
  const std::string metric(space == std::string_view::npos ? "" : trim(text.substr(space)));
  if (!metric.empty() && word == "max") return {Selection::By::Max, metric};
  if (!metric.empty() && word == "min") return {Selection::By::Min, metric};
  throw Error(Errc::InvalidInput, "select: '" + std::string(text) +
                                      "' is not a selection; write latest, 'max accuracy' or "
                                      "'min loss'");
}

size_t select_checkpoint(std::span<const CheckpointInfo> checkpoints, const Selection& selection) {
  std::optional<size_t> best;
  std::pair<double, uint64_t> best_key;
  for (size_t i = 0; i < checkpoints.size(); ++i) {
    const auto value = score(checkpoints[i], selection);
    if (!value) continue;
    const std::pair key(*value, checkpoints[i].step);
    if (!best || key >= best_key) {
      best = i;
      best_key = key;
    }
  }
  if (!best) throw_no_metric(checkpoints, selection.metric);
  return *best;
}

}  // namespace dlflow::steps
