#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The order in which people look for metrics, for all that shows them.
namespace dlflow {

struct UsualMetric {
  std::string_view name;
  bool largest;  ///< the larger, the better
};

/// By which results are told and compared where no gate and no selection says it, the most telling
/// first.
inline constexpr std::array<UsualMetric, 3> kUsualMetrics{
    {{"accuracy", true}, {"iou", true}, {"loss", false}}};

/// `names` with those of `named` first, which a gate or a selection names, in their order; then the
/// usual ones; other scores and losses; what only the program knows; times, rates and amounts of
/// work; last what there is of each class. Names of one kind stay in their order.
std::vector<std::string> in_metric_order(std::vector<std::string> names,
                                         std::span<const std::string> named = {});

}  // namespace dlflow
