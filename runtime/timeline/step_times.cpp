#include "runtime/timeline/step_times.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"

namespace dlflow::runtime {
namespace {

using Row = Timeline::Row;
using Span = Timeline::Span;

double seconds(Timeline::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

bool is_within(const Span& inner, const Span& outer) {
  return inner.begin >= outer.begin && inner.end <= outer.end;
}

/// The spans of the rank's own thread, outer spans before those within.
std::vector<const Span*> nested(std::span<const Span> spans) {
  std::vector<const Span*> sorted;
  for (const Span& span : spans) {
    if (span.row != Row::Communication) sorted.push_back(&span);
  }
  std::ranges::stable_sort(sorted, {}, [](const Span* span) {
    return std::tuple(span->begin, -span->end.time_since_epoch(), span->row);
  });
  return sorted;
}

}  // namespace

StepTimes step_times(std::span<const Span> spans) {
  StepTimes times;
  const auto part_of = [&](const Span& span) -> double& {
    if (span.row == Row::Step) return times.other;
    return span.row == Row::Waiting ? times.waiting : times.computation[span.name];
  };
  std::vector<const Span*> around;
  for (const Span* span : nested(spans)) {
    while (!around.empty() && !is_within(*span, *around.back())) around.pop_back();
    if (around.empty() && span->row != Row::Step) continue;
    const double time = seconds(span->end - span->begin);
    if (!around.empty()) part_of(*around.back()) -= time;
    part_of(*span) += time;
    if (span->row == Row::Step) times.steps.push_back(time);
    around.push_back(span);
  }
  return times;
}

double quantile(std::span<const double> values, double part) {
  DLFLOW_CHECK(!values.empty());
  std::vector<double> sorted(values.begin(), values.end());
  const auto place = sorted.begin() + long(double(sorted.size() - 1) * part);
  std::ranges::nth_element(sorted, place);
  return *place;
}

}  // namespace dlflow::runtime
