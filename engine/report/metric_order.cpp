#include "engine/report/metric_order.h"

#include <algorithm>
#include <utility>

namespace dlflow {
namespace {

enum class Kind { Named, Usual, Score, Other, Work, OfOneClass };

template <size_t N>
bool has_any(std::string_view name, const std::array<std::string_view, N>& parts) {
  return std::ranges::any_of(
      parts, [name](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

bool is_of_one_class(std::string_view name) {
  return name.starts_with("accuracy_of_") || name.starts_with("iou_of_");
}

/// A time, a rate, or how much was done.
bool is_work(std::string_view name) {
  constexpr std::array<std::string_view, 14> kAmounts = {
      "at",         "bytes",    "epoch", "epochs",  "files", "images", "learning_rate",
      "parameters", "progress", "ranks", "samples", "step",  "steps",  "total_bytes"};
  return name.ends_with("_s") || std::ranges::find(kAmounts, name) != kAmounts.end();
}

bool is_score(std::string_view name) {
  constexpr std::array<std::string_view, 12> kParts = {"accuracy",  "auc",    "dice", "error",
                                                       "f1",        "iou",    "loss", "perplexity",
                                                       "precision", "recall", "rmse", "top"};
  return has_any(name, kParts);
}

/// The kind, and the place among those of that kind.
std::pair<Kind, size_t> place_of(std::string_view name, std::span<const std::string> named) {
  if (const auto found = std::ranges::find(named, name); found != named.end()) {
    return {Kind::Named, size_t(found - named.begin())};
  }
  const auto usual = std::ranges::find(kUsualMetrics, name, &UsualMetric::name);
  if (usual != kUsualMetrics.end()) return {Kind::Usual, size_t(usual - kUsualMetrics.begin())};
  if (is_of_one_class(name)) return {Kind::OfOneClass, 0};
  if (is_work(name)) return {Kind::Work, 0};
  return {is_score(name) ? Kind::Score : Kind::Other, 0};
}

}  // namespace

std::vector<std::string> in_metric_order(std::vector<std::string> names,
                                         std::span<const std::string> named) {
  std::ranges::stable_sort(names, {},
                           [named](const std::string& name) { return place_of(name, named); });
  return names;
}

}  // namespace dlflow
